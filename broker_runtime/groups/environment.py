"""What decisions about groups may use beside the state: settings, time, timers, and the cluster's metadata."""

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from broker_runtime.config.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding
from broker_runtime.groups.answers import Outbox
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.image import MetadataImage

T = TypeVar("T")

GroupTimer = Callable[[GroupsState], Deciding[GroupRecord, None]]
"""What is decided when a timer is due: it comes in its turn, and must look whether it still means anything."""


class GroupTimers(Protocol):
    """`coordination.timer_service.TimerService`, one for each shard. Keys begin with the group's id."""

    def schedule(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        """In the place of the key's timer, if it has one."""
        ...

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: GroupTimer) -> None: ...

    def go_on(self, key: Hashable, action: GroupTimer) -> None:
        """The next slice of what is being decided: before all who wait, once the log has taken this one."""
        ...

    def once_taken(self, act: Callable[[], None]) -> None:
        """Call `act` when the log has taken records of the decision that is being made, and never if it refuses all."""
        ...

    def cancel(self, key: Hashable) -> None: ...


class GroupEnvironment(Protocol):
    """Of one shard. `shard.GroupShard` gives it to decisions; tests have their own with a manual clock."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def timers(self) -> GroupTimers: ...

    @property
    def outbox(self) -> Outbox: ...

    def now_ms(self) -> int:
        """Wall time, for what is written."""
        ...

    def new_id(self) -> str:
        """A fresh UUID as Kafka writes member ids."""
        ...

    def run_aside(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        """For what would hold the event loop too long: an assignor, the topics of a regular expression.

        `work` runs in a thread, on what nobody changes meanwhile. The decision that `then` makes of its result, or of
        what it raised, comes in its turn like that of a timer. Nothing comes when the term has ended meanwhile.
        """
        ...
