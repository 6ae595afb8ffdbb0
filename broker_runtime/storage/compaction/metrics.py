"""Figures of the log cleaner, for Kafka's metrics LogCleaner and LogCleanerManager."""

from typing import TYPE_CHECKING

from broker_runtime.storage.compaction.dirt import Dirt

if TYPE_CHECKING:
    from broker_runtime.storage.compaction.steps import Counts


class CleanerMetrics:
    """Metrics of the log cleaner. Shares are from 0 to 1, and nothing is durable."""

    def __init__(self, now_s: float) -> None:
        self.last_look_s = now_s
        """Time of the last check, in seconds of the monotonic clock."""
        self.max_dirty_ratio = 0.0
        """Dirty ratio of the dirtiest log at the last check, before it was cleaned."""
        self.uncleanable_partitions = 0
        self.uncleanable_bytes = 0
        self.map_utilization = 0.0
        self.recopy_ratio = 0.0
        """Bytes written for each byte read by the last cleaning."""
        self.clean_time_s = 0.0
        self.compaction_delay_s = 0.0
        self.cleanings = 0

    def checked(self, filthiest: Dirt | None, uncleanable: int, uncleanable_bytes: int) -> None:
        self.max_dirty_ratio = 0.0 if filthiest is None else filthiest.ratio
        self.uncleanable_partitions, self.uncleanable_bytes = uncleanable, uncleanable_bytes

    def cleaned(self, counts: "Counts", map_utilization: float, took_s: float, delay_ms: int) -> None:
        self.cleanings += 1
        self.map_utilization = map_utilization
        self.recopy_ratio = counts.bytes_written / max(counts.bytes_read, 1)
        self.clean_time_s = took_s
        self.compaction_delay_s = max(delay_ms, 0) / 1000
