"""An audit topic that is a list of records."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from audit_pipeline.ingest.audit_topic import EventRecord, end_of
from audit_pipeline.spool.segment import Footer


class MemoryTopic:
    """An EventTopic in memory.

    `takes` is the number of records to accept; the topic then fails once, as when a broker is gone.
    """

    def __init__(self, takes: int | None = None) -> None:
        self.records: list[EventRecord] = []
        self.takes = takes

    @property
    def acknowledged(self) -> int:
        return len(self.records)

    def ends(self, since_ms: int) -> Iterator[Footer]:
        found = (end_of(record.value) for record in self.records if record.timestamp_ms >= since_ms)
        return (footer for footer in found if footer is not None)

    def put(self, records: Iterable[EventRecord]) -> None:
        for record in records:
            if self.takes == 0:
                self.takes = None
                raise OSError("the broker is gone")
            self.takes = None if self.takes is None else self.takes - 1
            self.records.append(record)

    def flush(self) -> None:
        """Do nothing: every record is stored already."""

    @property
    def read(self) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self.records]
