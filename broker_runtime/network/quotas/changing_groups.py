"""Apply changes of connection groups while clients are served. Shell."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.groups.connection_groups import ConnectionGroups

_RECOUNTED_PER_TURN = 200
"""Addresses whose open connections are recounted per iteration: this takes half a millisecond."""


class ChangingGroups:
    """Applies each change from the next accepted socket on.

    The counts of open connections follow over several iterations of the event loop.
    """

    def __init__(self, groups: ConnectionGroups, now_ms: Callable[[], int], loop: AbstractEventLoop) -> None:
        self._groups = groups
        self._now_ms = now_ms
        self._loop = loop
        self._recounting = False

    def set_limits(self, name: str, limits: AddressGroupLimits) -> None:
        """Change the limits of a group. NO_LIMITS removes the group and its counts."""
        self._groups.set_limits(name, limits, self._now_ms())
        self._recount_soon()

    def set_member(self, name: str, member: str, number: float | None) -> None:
        """Add, or with None as `number` remove, an address or a range of a group.

        `number` identifies the holder of the address. Raises ValueError if `member` is neither an address nor a range.
        """
        if number is not None:
            self._groups.add_member(name, member, self._now_ms(), number)
        else:
            self._groups.remove_member(name, member, self._now_ms())
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
