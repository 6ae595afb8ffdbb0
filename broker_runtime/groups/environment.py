"""The environment of decisions about groups: configuration, time, timers and the metadata of the cluster."""

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding
from broker_runtime.groups.answers import Outbox
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.image import MetadataImage

T = TypeVar("T")

GroupTimer = Callable[[GroupsState], Deciding[GroupRecord, None]]
"""The decision of a due timer. It is queued like a request, so it must check that it is still relevant."""


class GroupTimers(Protocol):
    """The timers of the groups in a shard. Keys begin with the group's id.

    Implemented by `coordination.timer_service.TimerService`.
    """

    def schedule(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        """Schedule the action, and replace a timer with the same key."""
        ...

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: GroupTimer) -> None: ...

    def continue_with(self, key: Hashable, action: GroupTimer) -> None:
        """Schedule the next slice of the current decision.

        That slice is decided before all queued requests, once the log has taken the current slice.
        """
        ...

    def once_taken(self, act: Callable[[], None]) -> None:
        """Call `act` when the log has taken records of the decision that is being made, and never if it refuses all."""
        ...

    def cancel(self, key: Hashable) -> None: ...


class GroupEnvironment(Protocol):
    """The environment of one shard, passed to its decisions.

    `shard.GroupShard` passes it; tests use an environment with a manual clock.
    """

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def timers(self) -> GroupTimers: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def members_room(self) -> MembersRoom:
        """Return the memory limit of members, which all shards of the broker share."""
        ...

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds, for records."""
        ...

    def new_id(self) -> str:
        """Return a fresh UUID as Kafka writes member ids."""
        ...

    def offload(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        """Run `work` in a thread, because it would block the event loop too long.

        For example, an assignor or the matching of a regular expression. `work` must only use data that does not change
        meanwhile. `then` gets the result or the exception of `work`, and returns a decision that is queued like that of
        a timer. If the term has ended meanwhile, nothing follows.
        """
        ...


def take_room(environment: GroupEnvironment, size: int, group_id: str) -> None:
    """Take `size` bytes for a member, within the configured limit. Raises KafkaError (GROUP_MAX_SIZE_REACHED)."""
    environment.members_room.take(size, environment.config.sluicegate_groups_members_bytes_max, group_id)
