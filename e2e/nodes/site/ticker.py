"""Run in a pod of examples/secure: write with acks=all for a while, read all back, and print what was counted as JSON.

`python ticker.py SETTINGS TOPIC SECONDS`: SETTINGS is a file of the example. In the environment, `KEEP_S` limits how
long a token counts as valid, so that the client reads one again, and `NEXT_TOKEN` names the file of the later ones.
"""

import hashlib
import json
import os
import runpy
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PAUSE_S = 0.01
TIMEOUT_S = 30.0


class Ticker:
    """One producer and what it was told."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._failures: list[str] = []
        self._errors: Counter[str] = Counter()
        self._tokens: dict[str, float] = {}
        """Digests of the tokens that were shown, with the time of the first use."""
        if "oauth_cb" in settings:
            self._read_token = settings["oauth_cb"]
            settings["oauth_cb"] = self._token
        settings["error_cb"] = self._failed

    def _token(self, given: str) -> tuple[str, float]:
        token, expires_s = self._read_token(given)
        if "NEXT_TOKEN" in os.environ:
            os.environ["TOKEN"] = os.environ["NEXT_TOKEN"]
        self._tokens.setdefault(hashlib.sha256(token.encode()).hexdigest()[:12], time.time())
        return token, min(expires_s, time.time() + float(os.environ.get("KEEP_S", "3600")))

    def _failed(self, error: KafkaError) -> None:
        self._errors[str(error.str())[:200]] += 1

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self._failures.append(str(error))
        else:
            self._acknowledged[message.partition(), message.offset()] = message.value()

    def write(self, seconds: float) -> int:
        """Return the number of records that were sent."""
        own = {key: value for key, value in self._settings.items() if key != "group.id"}
        timeout_ms = int(TIMEOUT_S * 1000)
        producer = Producer({**own, "acks": "all", "enable.idempotence": True, "message.timeout.ms": timeout_ms})
        ends_s, sent = time.monotonic() + seconds, 0
        while time.monotonic() < ends_s:
            producer.produce(self._topic, b"tick %d" % sent, on_delivery=self._delivered)
            sent += 1
            producer.poll(PAUSE_S)
        if not self._errors or self._acknowledged:
            producer.flush(TIMEOUT_S)
        return sent

    def read(self) -> dict[tuple[int, int], bytes]:
        """Return all records of the topic by partition and offset."""
        consumer = Consumer({**self._settings, "enable.auto.commit": False})
        found: dict[tuple[int, int], bytes] = {}
        consumer.poll(0)
        written = sorted({partition for partition, _ in self._acknowledged})
        partitions = [TopicPartition(self._topic, partition, 0) for partition in written]
        ends = [consumer.get_watermark_offsets(one, timeout=TIMEOUT_S)[1] for one in partitions]
        consumer.assign(partitions)
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(found) < sum(ends) and time.monotonic() < deadline_s:
            for message in consumer.consume(1_000, timeout=0.5):
                if message.error() is None:
                    found[message.partition(), message.offset()] = message.value()
        consumer.close()
        return found

    def report(self, sent: int) -> dict[str, Any]:
        found = self.read() if self._acknowledged else {}
        lost = [place for place, value in self._acknowledged.items() if found.get(place) != value]
        return {
            "sent": sent,
            "acknowledged": len(self._acknowledged),
            "found": len(found),
            "lost": len(lost),
            "repeated": len(found) - len(set(found.values())),
            "failures": self._failures[:5],
            "errors": dict(self._errors.most_common(5)),
            "tokens": len(self._tokens),
        }


def main(path: str, topic: str, seconds: str) -> None:
    ticker = Ticker(dict(runpy.run_path(str(Path(path)))["confluent_kafka"]), topic)
    sys.stdout.write(json.dumps(ticker.report(ticker.write(float(seconds)))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
