"""Interfaces of a coordinator's runtime: its log (`DurableLog`) and what it runs (`Shard`, `State`, `Decision`). Pure.

The terms are those of Apache Kafka's coordinator-common: a shard is the coordinator of one log, from which it derives
all of its state.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.storage.records.batching import KeyValue

S = TypeVar("S", bound="State[Any]")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")
Made = TypeVar("Made", bound=tuple[Any, ...])


class State(Protocol[R_contra]):
    """The durable state of a coordinator: everything that the records of its log contain.

    Other state, such as the members that wait for a rebalance, is soft: the next coordinator starts without it.
    """

    @property
    def next_offset(self) -> int:
        """Offset of the next record to apply."""
        ...

    def apply(self, record: R_contra, offset: int) -> object:
        """Apply the record at `offset`.

        Raises ValueError if `offset` is below `next_offset`, or the record contradicts the records before it. Only a
        compacted log has gaps between offsets: the state of any other log rejects a gap too.
        """
        ...


Decided = tuple[Sequence[R], T]
"""The records to write, and the answer to send once they are durable."""

Deciding = Decided[R, T] | Steps[Decided[R, T]]
"""A decision already made, or one to be made in steps."""


def in_one_go(making: Made | Steps[Made]) -> Made:
    """Return the result of a decision or an encoding, running all its steps without a pause."""
    return making if isinstance(making, tuple) else at_once(making)


Decision = Callable[[S], Deciding[R, T]]
"""Decides one request, at once or in steps, during which the state does not change. Raises KafkaError to refuse it.

The records get consecutive offsets from `state.next_offset` on. A decision may rely on this if a record contains its
own offset, and `State.apply` checks it.

A decision never changes durable state: only applying its records does. It may change soft state, but only after
everything that can fail; such a change remains even if the log refuses the records. If a timer depends on what the
records create, the decision sets it with `TimerService.once_taken`.
"""


class AtomicBatch(list[R]):
    """Records of a decision that are written as one batch of the log or not at all.

    A coordinator that takes over after half of them would load a state that never existed.
    """


class Refusal(Enum):
    """Why a request is not decided, or is answered with an error although it was decided."""

    UNLOADED = "another process decides this request, or no process yet"
    LOADING = "the log is still being read"
    QUEUE_FULL = "the queue of requests is full"
    LOST = "the request was decided, but this process does not know whether all of its records are durable"


class Shard(Protocol[S, R]):
    """The coordinator that a runtime runs."""

    async def load(self) -> S:
        """Return the state loaded from the log. An exception ends the runtime."""
        ...

    def opening(self, state: S) -> Sequence[Decision[S, R, None]]:
        """Decisions that are made and committed after each load, before any submitted request."""
        ...

    def loaded(self, state: S) -> None:
        """Handle the activation of the shard."""
        ...

    def encode(self, record: R) -> KeyValue | Steps[KeyValue]:
        """Encode a record, in steps if it is long. A decision that writes long records is made in steps, too."""
        ...

    def applied(self, record: R, state: S) -> None:
        """Handle a record decided here, after it is applied and before it is known to be durable."""
        ...

    def consequences(self, records: Sequence[R], state: S) -> Steps[Sequence[R]] | None:
        """Further records of the same request that follow from those just applied. None if there is nothing to do.

        The steps may also finish work that the applied records require. The state does not change between two steps.
        """
        ...

    def committed(self, state: S) -> None:
        """Handle the commit of the whole state, after all requests that waited for it are answered."""
        ...

    def refuse(self, why: Refusal) -> KafkaError:
        """Return the error sent to the client whose request is refused for the reason `why`."""
        ...


class DurableLog(Protocol):
    """The log to which one coordinator writes its records, and which knows when they are durable.

    Two implementations pass tests/contract/test_coordination.py: `controller.journal_log.JournalLog`, whose journal
    commits, and `replicated_log.ReplicatedLog`, which waits for a partition's high watermark.
    """

    batch_bytes_max: int
    """Maximum size of a batch of several records, without headers."""
    record_bytes_max: int
    """Maximum size of a single record's key and value together."""

    @property
    def held(self) -> bool:
        """Whether this process is the only writer. False from the moment when another process might write the log."""
        ...

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Append very many records together: the slow part runs in steps, before anything is written."""
        ...

    def append(self, records: Sequence[KeyValue]) -> int:
        """Append the records together to the end of the log. Returns the offset of the first record.

        Raises KafkaError if the log refuses them, and then appends none. Not called while `commit` runs.
        """
        ...

    def flush(self) -> None:
        """Write the appended records, which the log may have gathered into one batch.

        Called in the same iteration of the event loop as `append`, and before `commit`. An exception ends the runtime,
        because its state is ahead of the log.
        """
        ...

    async def commit(self) -> None:
        """Wait until everything appended is durable.

        When it returns, this process was still the log's writer, even if nothing was appended. An exception ends the
        runtime: the log's next writer loads it again.
        """
        ...
