"""Interfaces of a coordinator's runtime: its log (`DurableLog`) and what it runs (`Shard`, `State`, `Decision`). Pure.

The terms are those of Apache Kafka's coordinator-common: a shard is the coordinator of one log, from which it derives
all of its state.
"""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.storage.records.batching import KeyValue
from broker_runtime.storage.records.transactions import VerificationGuard
from kafka_bytes.control import Marker

S = TypeVar("S", bound="State[Any]")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")
Made = TypeVar("Made", bound=tuple[Any, ...])


class State(Protocol[R_contra]):
    """The durable state of a coordinator: everything that the records of its log contain.

    Other state, such as the members that wait for a rebalance, is soft: the next coordinator starts without soft state.
    """

    @property
    def next_offset(self) -> int:
        """Offset of the next record to apply."""
        ...

    def apply(self, record: R_contra, offset: int) -> object:
        """Apply the record of the log at `offset` to the state.

        Raises ValueError if `offset` is below `next_offset`, or the record contradicts the records before it. Only a
        compacted log has gaps between offsets: the state of any other log rejects a gap too.
        """
        ...


Decided = tuple[Sequence[R], T]
"""The records to write, and the answer to send once they are durable."""

Deciding = Decided[R, T] | Steps[Decided[R, T]]
"""A decision that is already made, or the steps that make it."""


def in_one_go(making: Made | Steps[Made]) -> Made:
    """Return the result of a decision or an encoding after running all its steps without a pause."""
    return making if isinstance(making, tuple) else at_once(making)


Decision = Callable[[S], Deciding[R, T]]
"""A function that decides one request, at once or in steps, during which the state does not change.

It raises KafkaError to refuse the request.

The records get consecutive offsets from `state.next_offset` on. A decision may rely on this if a record contains its
own offset, and `State.apply` checks it.

A decision never changes durable state: only applying its records does. It may change soft state, but only after
everything that can fail; such a change remains even if the log refuses the records. If a timer depends on what the
records create, the decision sets it with `TimerService.once_taken`.
"""


class Postponement(NamedTuple):
    """The key that a decision waits for, and the code and the text of its refusal if it waits for too long."""

    key: Hashable
    code: ErrorCode
    text: str


class PostponedError(Exception):
    """Error of a decision that waits for another one: it is made again once the other one releases the key.

    Only a submitted decision that is made at once may wait.
    """

    def __init__(self, why: Postponement) -> None:
        super().__init__(why)
        self.why = why


class AtomicBatch(list[R]):
    """Records of a decision that are written as one batch of the log or not at all.

    A coordinator that takes over after half of the records would load a state that never existed.
    """


class TransactionalProducer(NamedTuple):
    """The producer in whose transaction a coordinator writes records (KIP-98).

    The log checks `guard` if the records open the transaction in the partition (KIP-890).
    """

    producer_id: int
    epoch: int
    guard: VerificationGuard | None = None


class TransactionalBatch(list[R]):
    """Records of a decision that are written in a producer's transaction, in batches of their own.

    They may be split: they count together, or not at all, once the transaction has ended. So a state applies them as
    pending.
    """

    def __init__(self, records: Sequence[R], producer: TransactionalProducer) -> None:
        super().__init__(records)
        self.producer = producer


class TransactionEnd(list[R]):
    """The single record of a decision that ends a producer's transaction. The log has `marker` in its place."""

    def __init__(self, record: R, marker: Marker) -> None:
        super().__init__((record,))
        self.marker = marker


class Refusal(Enum):
    """The reason why a request is not decided, or is answered with an error although it was decided."""

    UNLOADED = "another process decides this request, or no process yet"
    LOADING = "the log is still being read"
    QUEUE_FULL = "the queue of requests is full"
    LOST = "the request was decided, but this process does not know whether all of its records are durable"


class Shard(Protocol[S, R]):
    """The coordinator that a runtime runs, with its state."""

    async def load(self) -> S:
        """Return the state loaded from the log. An exception ends the runtime."""
        ...

    def opening(self, state: S) -> Sequence[Decision[S, R, None]]:
        """Return the decisions that are made and committed after each load, before any submitted request."""
        ...

    def loaded(self, state: S) -> None:
        """Begin to serve the shard, whose state was just loaded."""
        ...

    def encode(self, record: R) -> KeyValue | Steps[KeyValue]:
        """Encode a record, in steps if the record is long.

        A decision that writes long records is made in steps, too.
        """
        ...

    def applied(self, record: R, state: S) -> None:
        """Handle a record of a decision that this process has made: it is applied, and not yet known to be durable."""
        ...

    def consequences(self, records: Sequence[R], state: S) -> Steps[Sequence[R]] | None:
        """Return further records of the same request that follow from those just applied; None without such records.

        The steps may also finish work that the applied records require. The state does not change between two steps.
        """
        ...

    def committed(self, state: S) -> None:
        """Handle the commit of the shard's whole state, after all requests that waited for the commit are answered."""
        ...

    def refuse(self, why: Refusal) -> KafkaError:
        """Return the error sent to the client whose request is refused for the reason `why`."""
        ...


class DurableLog(Protocol):
    """The log to which one coordinator writes its records. It determines when they are durable.

    Two implementations pass tests/contract/test_coordination.py: `controller.journal_log.JournalLog`, whose journal
    commits, and `replicated_log.ReplicatedLog`, which waits for a partition's high watermark. Only a partition has
    transactions: a journal refuses their batches and markers.
    """

    batch_bytes_max: int
    """Maximum size of a batch of several records, without headers."""
    record_bytes_max: int
    """Maximum size of a single record's key and value together."""

    @property
    def held(self) -> bool:
        """Return whether this process is the only writer; False as soon as another process might write the log."""
        ...

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Append very many records to the log together. The slow part runs in steps, before any record is written."""
        ...

    def append(self, records: Sequence[KeyValue]) -> int:
        """Append the records together to the end of the log. Return the offset of the first record.

        If the log refuses the records, no record is appended, and KafkaError is raised. Not called while `commit` runs.
        """
        ...

    def append_transactional(self, records: Sequence[KeyValue], producer: TransactionalProducer) -> int:
        """Append the records as one batch of the producer's transaction, as `append` does."""
        ...

    def append_marker(self, marker: Marker) -> int:
        """Append the marker that ends a producer's transaction, as `append` does. Return its offset."""
        ...

    def flush(self) -> None:
        """Write the appended records, which the log may have gathered into one batch.

        Called in the same iteration of the event loop as `append`, and before `commit`. An exception ends the runtime,
        because its state is ahead of the log.
        """
        ...

    async def commit(self) -> None:
        """Wait until all appended records are durable.

        When the call returns, this process was still the log's writer, even if nothing was appended. An exception ends
        the runtime: the log's next writer loads the log again.
        """
        ...
