"""A log in memory for tests of the runtime, which refuses some records."""

from collections.abc import Sequence

from broker_runtime.coordination.seam import TransactionalProducer
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batching import KeyValue
from kafka_bytes.control import Marker


class FussyLog:
    """A log that takes any batch but those with the key `bad`; a batch holds a few records."""

    batch_bytes_max = 400
    record_bytes_max = 800
    held = True

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.batches = self.commits = 0

    def append(self, records: Sequence[KeyValue]) -> int:
        keys = [key or b"" for key, _ in records]
        if b"bad" in keys:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "bad")
        self.keys += keys
        self.batches += 1
        return len(self.keys) - len(keys)

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        yield
        return self.append(records)

    def append_transactional(self, records: Sequence[KeyValue], producer: TransactionalProducer) -> int:
        return self.append(records)

    def append_marker(self, marker: Marker) -> int:
        return self.append([(b"marker", None)])

    def flush(self) -> None:
        """Do nothing: appended records count as written."""

    async def commit(self) -> None:
        """Count the commit: appended records are durable."""
        self.commits += 1
