"""Apply changes of connection groups while clients are served. Shell."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from broker_runtime.network.quotas.limit_changes import LimitChanges
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.groups.connection_groups import ConnectionGroups

_RECOUNTED_PER_TURN = 200
"""Addresses whose open connections are recounted per iteration: this takes half a millisecond."""


class ChangingGroups:
    """Changes of connection groups, each in force from the next accepted socket on.

    The counts of open connections follow over several iterations of the event loop. `now` returns seconds.
    """

    def __init__(
        self, groups: ConnectionGroups, now: Callable[[], float], loop: AbstractEventLoop, changes: LimitChanges
    ) -> None:
        self._groups = groups
        self._now = now
        self._loop = loop
        self._changes = changes
        self._recounting = False
        self.on_cluster_rate: Callable[[], None] = _do_nothing
        """Called when a group gets a rate of the cluster, or loses it."""

    def set_limits(self, name: str, limits: AddressGroupLimits) -> None:
        """Change the limits of a connection group. NO_LIMITS removes the group and its counts."""
        had_cluster_rate = name in self._groups.cluster_wide
        now_s = self._now()
        self._groups.set_limits(name, limits, int(now_s * 1000))
        self._changes.group(name, limits, now_s)
        self._recount_soon()
        if had_cluster_rate or name in self._groups.cluster_wide:
            self.on_cluster_rate()

    def set_member(self, name: str, member: str, number: float | None) -> None:
        """Add, or with None as `number` remove, an address or a range of a group.

        `number` identifies the holder of the address. Raises ValueError if `member` is neither an address nor a range.
        """
        now_s = self._now()
        if number is not None:
            self._groups.add_member(name, member, int(now_s * 1000), number)
        else:
            self._groups.remove_member(name, member, int(now_s * 1000))
        self._changes.member(name, member, number, now_s)
        self._recount_soon()

    def _recount_soon(self) -> None:
        if self._groups.recount_due and not self._recounting:
            self._recounting = True
            self._loop.call_soon(self._recount)

    def _recount(self) -> None:
        if self._groups.recount(_RECOUNTED_PER_TURN):
            self._loop.call_soon(self._recount)
        else:
            self._recounting = False
            self._changes.counted()


def _do_nothing() -> None:
    """Ignore a rate of the cluster: nobody reports demands."""
