"""Counters of the verifications of transactions, for metrics. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.seam import TopicPartition


@dataclass(slots=True)
class VerificationTally:
    """Counters of questions to coordinators since the start of this process."""

    questions: int = 0
    failures: int = 0
    """Number of partitions that were not verified."""
    time_ms: float = 0.0
    """Time from all questions to their answers together."""
    time_max_ms: float = 0.0

    def answered(self, codes: Mapping[TopicPartition, ErrorCode], took_s: float) -> None:
        """Count a question with the codes of its partitions."""
        self.questions += 1
        self.failures += sum(code is not ErrorCode.NONE for code in codes.values())
        self.time_ms += took_s * 1000
        self.time_max_ms = max(self.time_max_ms, took_s * 1000)
