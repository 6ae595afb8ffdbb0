"""A small coordinator that adds up numbers by name, for tests of the runtime."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from broker_runtime.coordination.seam import Decision, Refusal
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batch import Record
from broker_runtime.storage.records.batching import KeyValue

CODES = {
    Refusal.UNLOADED: ErrorCode.NOT_COORDINATOR,
    Refusal.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Refusal.QUEUE_FULL: ErrorCode.REQUEST_TIMED_OUT,
    Refusal.LOST: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Added:
    """A record: this number is added to the sum of this name."""

    name: str
    number: int


@dataclass(slots=True)
class Tally:
    """The sums of the numbers added to each name; no sum goes below zero."""

    sums: dict[str, int] = field(default_factory=dict)
    next_offset: int = 0

    def apply(self, record: Added, offset: int) -> None:
        if offset != self.next_offset:
            raise ValueError(f"the next record must be at offset {self.next_offset}, not {offset}")
        after = self.sums.get(record.name, 0) + record.number
        if after < 0:
            raise ValueError(f"{record.name} would be {after}")
        self.sums[record.name] = after
        self.next_offset += 1


TallyDecision = Decision[Tally, Added, None]


class TallyShard:
    """Each term writes `opens_with`. If `follows` is true, a record of "follows" goes with every record of "a"."""

    def __init__(self, load: Callable[[], Awaitable[Tally]]) -> None:
        self._load = load
        self.opens_with: list[Added] = []
        self.follows = False
        self.log: list[object] = []

    async def load(self) -> Tally:
        return await self._load()

    def opening(self, state: Tally) -> Sequence[TallyDecision]:
        return [lambda tally: (self.opens_with, None)]

    def loaded(self, state: Tally) -> None:
        self.log.append("loaded")

    def encode(self, record: Added) -> KeyValue:
        return record.name.encode(), str(record.number).encode()

    def applied(self, record: Added, state: Tally) -> None:
        self.log.append(record)

    def consequences(self, records: Sequence[Added], state: Tally) -> Steps[Sequence[Added]]:
        yield
        return [Added("follows", 1) for record in records if record.name == "a" and self.follows]

    def committed(self, state: Tally) -> None:
        self.log.append("committed")

    def refuse(self, why: Refusal) -> KafkaError:
        return KafkaError(CODES[why], why.value)


def decoded(item: Record) -> Added:
    assert item.key is not None
    assert item.value is not None
    return Added(item.key.decode(), int(item.value))
