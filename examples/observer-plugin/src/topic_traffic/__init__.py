"""Who produces how much to which topic: an observer for Sluicegate's broker."""

import json
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from broker_runtime.observers import Struct

log = logging.getLogger(__name__)

PRODUCE = 0
OTHER = ("other", "other")
UNKNOWN = "unknown"
"""A topic that was deleted meanwhile: newer clients send its id."""


class TopicTraffic:
    """Adds up on the broker's event loop, which takes microseconds; a thread of its own writes the file."""

    def configure(self, config: Mapping[str, str]) -> None:
        if "path" not in config:
            raise ValueError("path is missing: the file that the sums are written to")
        self._path = Path(config["path"].replace("{pid}", str(os.getpid())))
        self._interval_s = float(config.get("interval.s", "5"))
        self._series_max = int(config.get("series.max", "1000"))
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._over = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._run, name="topic-traffic", daemon=True)
        self._thread.start()

    def record_request(
        self, struct: Struct, client_address: str, principal: str, api_key: int, api_version: int, correlation_id: str
    ) -> None:
        if api_key != PRODUCE:
            return
        client = struct.context.client_id or client_address
        for topic in struct.get_array("topic_data"):
            sums = self._of(client, topic.get_topic() or UNKNOWN)
            for partition in topic.get_array("partition_data"):
                records = partition.get_records("records")
                if records is not None:
                    sums[0] += records.size
                    sums[1] += records.count or 0

    def record_response(self, struct: Struct, api_version: int, correlation_id: str) -> None:
        """Do nothing: responses are not needed."""

    def close(self, timeout_s: float) -> None:
        self._over.set()
        self._thread.join(timeout_s)

    def _of(self, client: str, topic: str) -> list[int]:
        """Names come from clients: there must be an end to how many are kept."""
        key = (client, topic)
        if key not in self._sums and len(self._sums) >= self._series_max:
            key = OTHER
        return self._sums.setdefault(key, [0, 0])

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._interval_s)
            try:
                self._write()
            except OSError as error:
                # The disk may have room again the next time: this thread must not end before.
                log.warning("the sums cannot be written to %s: %s", self._path, error)

    def _write(self) -> None:
        rows = [
            {"client": client, "topic": topic, "bytes": sums[0], "records": sums[1]}
            for (client, topic), sums in sorted(self._sums.copy().items())
        ]
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, self._path)
