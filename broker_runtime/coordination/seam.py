"""What a coordinator's runtime is built on (`DurableLog`) and what it runs (`State`, `Decision`, `Shard`). Pure.

The words are those of Apache Kafka's coordinator-common: a shard is the coordinator of one log, which all of its state
comes from.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from broker_runtime.errors import KafkaError
from broker_runtime.steps import Steps, at_once
from broker_runtime.storage.batching import KeyValue

S = TypeVar("S", bound="State[Any]")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")
Made = TypeVar("Made", bound=tuple[Any, ...])


class State(Protocol[R_contra]):
    """What a coordinator knows: everything that its log's records say.

    What they do not say (who waits for a rebalance) is soft: a coordinator that takes over begins without it.
    """

    @property
    def next_offset(self) -> int:
        """The offset of the record that is applied next."""
        ...

    def apply(self, record: R_contra, offset: int) -> object:
        """Raises ValueError when `offset` is below `next_offset`, or the record does not fit those before it. Only a
        log that was cleaned leaves offsets out: other states refuse that too."""
        ...


Decided = tuple[Sequence[R], T]
"""The records to write, and the answer once they are durable."""

Deciding = Decided[R, T] | Steps[Decided[R, T]]
"""A decision that is made, or that is made in steps."""


def in_one_go(making: Made | Steps[Made]) -> Made:
    """The result of a decision or an encoding, with all its steps made at once."""
    return making if isinstance(making, tuple) else at_once(making)


Decision = Callable[[S], Deciding[R, T]]
"""Decides one request, at once or in steps, during which the state does not change. Raises KafkaError to refuse.

The records get the offsets from `state.next_offset` on, one after the other. A decision may count on that where a
record says its own offset, and `State.apply` checks it. A decision changes nothing that the log says, only records
do; soft state it may change, before which nothing may fail halfway, and which stands although the log refuses them.
A timer of what only the records make is left to `TimerService.once_taken`.
"""


class Whole(list[R]):
    """Records of a decision that are one batch of the log, or none of them is written: who takes over after the first
    half of them would find what never was."""


class Refusal(Enum):
    """Why a request is not decided, or not answered as it was decided."""

    UNLOADED = "another process is asked to decide this, or nobody yet"
    LOADING = "the log is still being read"
    QUEUE_FULL = "as many requests wait as may"
    LOST = "the request was decided, and whether all of its records are durable is not known here"


class Shard(Protocol[S, R]):
    """What the runtime asks of whom it runs."""

    async def load(self) -> S:
        """The state that the log makes. What it raises ends the runtime."""
        ...

    def opening(self, state: S) -> Sequence[Decision[S, R, None]]:
        """Decided and made durable after each load, before anything that was submitted."""
        ...

    def loaded(self, state: S) -> None:
        """The shard is active from here on."""
        ...

    def encode(self, record: R) -> KeyValue | Steps[KeyValue]:
        """In steps where the record is long. A decision that writes such records is made in steps, too."""
        ...

    def applied(self, record: R, state: S) -> None:
        """Called after each record that was decided here, durable or not yet."""
        ...

    def consequences(self, records: Sequence[R], state: S) -> Steps[Sequence[R]] | None:
        """Records that follow from those just applied, and belong to the same request. None if there is nothing to do.

        The steps may also do what the applied records have left. The state does not change between two steps.
        """
        ...

    def committed(self, state: S) -> None:
        """All of the state is durable, and everybody who waited for it has an answer."""
        ...

    def refuse(self, why: Refusal) -> KafkaError:
        """What somebody who asked is told."""
        ...


class DurableLog(Protocol):
    """Where the records of one coordinator go, and when they are there for good.

    Two implementations pass tests/contract/test_coordination.py: `controller.journal_log.JournalLog`, whose journal
    commits, and `replicated_log.ReplicatedLog`, which waits for a partition's high watermark.
    """

    batch_bytes_max: int
    """A batch of several records is not larger than that, headers aside."""
    record_bytes_max: int
    """A record alone, its key and its value, is taken up to that."""

    @property
    def held(self) -> bool:
        """False from the moment on when another process might write the log."""
        ...

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """`append` of very many records: what takes long of it is done in steps before anything is written."""
        ...

    def append(self, records: Sequence[KeyValue]) -> int:
        """To the end of the log, and together; the offset of the first record. Raises KafkaError, and has taken none
        then. Not called while `commit` runs."""
        ...

    def flush(self) -> None:
        """Write what was appended, which may have waited to become one batch. It is called in the same turn of the
        event loop, before `commit` too. What it raises ends the runtime: its state is ahead of the log."""
        ...

    async def commit(self) -> None:
        """Everything appended is durable when it returns, and this process was the log's writer at that time, also
        where nothing was appended. What it raises ends the runtime: the log is loaded again, by whoever writes next."""
        ...
