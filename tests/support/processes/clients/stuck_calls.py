"""A transactional producer whose application copes with two faults of librdkafka 2.16.

- A call that never returns. librdkafka caches the coordinator of a group. When a broker leaves the metadata, librdkafka
  ends its thread for the broker, and does not remove it from that cache: send_offsets_to_transaction then waits until
  the state of a connection to any other broker changes, whatever its time limit (librdkafka issues 5456 and 5511). An
  application can only replace the producer. A request that a broker never answers, or refuses for ever, is another
  fault: here its call is not given up.
- A crash. librdkafka frees the state of the transaction before it ends the threads of its brokers. If one of them still
  receives the answer to a Produce request, and the answer says that the producer is fenced, the process ends. So a
  producer is closed when no answer is missing.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

IDLE_S = 5.0
"""Time without a request after which librdkafka waits for no broker: it repeats refused requests after 0.5 s."""
_STATISTICS_MS = 500
_POLL_S = 0.1
_CLOSE_S = 10.0
_OF_OFFSETS = ("AddOffsetsToTxn", "TxnOffsetCommit", "FindCoordinator", "ApiVersion")
"""Requests of send_offsets_to_transaction, by their names in librdkafka's statistics."""


_kept: list[Producer] = []
"""Producers that cannot be freed without a risk."""


class StuckError(Exception):
    """librdkafka does not return from a call, and waits for no broker."""


class Activity:
    """The requests of a producer, as its statistics report them."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._changed_s = time.monotonic()
        self._waits = True
        """Whether each report since the last request shows an answer that is missing."""

    def note(self, statistics: str) -> None:
        """Take over a report of librdkafka."""
        brokers: dict[str, Any] = json.loads(statistics)["brokers"]
        sent = {
            f"{name} {api}": int(broker["req"].get(api, 0)) for name, broker in brokers.items() for api in _OF_OFFSETS
        }
        if sent != self._sent:
            self._sent = sent
            self.begin()
        elif not any(broker["outbuf_cnt"] or broker["waitresp_cnt"] for broker in brokers.values()):
            self._waits = False

    def begin(self) -> None:
        """Note that a call, or a request, begins."""
        self._waits, self._changed_s = True, time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Return whether librdkafka has sent nothing for a time, and waits for no answer."""
        return not self._waits and time.monotonic() - self._changed_s > IDLE_S


class ObservedProducer:
    """A producer whose application gives up a call in which librdkafka waits for nothing."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._activity = Activity()
        self.api = Producer(
            {
                **settings,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._activity.note,
            }
        )

    def send_offsets(self, offsets: Sequence[TopicPartition], group: Any, timeout_s: float) -> None:
        """Send offsets to the transaction. Raises KafkaException, and StuckError: then the producer is of no use."""
        self._bounded(lambda: self.api.send_offsets_to_transaction(list(offsets), group, timeout_s))

    def close(self) -> None:
        """Drop the records that are not sent, and wait for the answers to the others. The transaction stays open.

        A producer whose answers do not come is never freed.
        """
        end_s = time.monotonic() + _CLOSE_S
        while len(self.api) and time.monotonic() < end_s:
            # Most calls of a fenced producer raise its error.
            with suppress(KafkaException):
                self.api.purge(in_queue=True, in_flight=False)
            with suppress(KafkaException):
                self.api.poll(_POLL_S)
        if len(self.api):
            _kept.append(self.api)

    def _bounded(self, call: Callable[[], object]) -> None:
        errors: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
                errors.append(error)
            finally:
                done.set()

        self._activity.begin()
        threading.Thread(target=run, name="call of librdkafka", daemon=True).start()
        while not done.wait(_POLL_S):
            self.api.poll(0)
            if self._activity.is_idle:
                raise StuckError
        for error in errors:
            raise error
