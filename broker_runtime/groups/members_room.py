"""The limit on memory for members of all groups of a broker: their subscriptions and assignments. Pure.

A group may have thousands of members, and a coordinator thousands of groups. So limits of one member and of one group
do not bound memory.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_runtime.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker_runtime.groups.group import Group

MEMBER_BYTES = 512
"""Bytes that a member counts besides its subscription."""
TOPIC_BYTES = 64
"""Bytes of the name of a subscribed topic, in groups that keep names one by one."""


class MembersRoom:
    """The memory that members of groups use, in bytes: the last count of all groups, and all bytes taken since.

    Members that leave return no bytes. The next count, `tally.Census`, notices free bytes a few seconds later.
    """

    __slots__ = ("_before", "_counted", "_taken", "measure")

    def __init__(self, measure: "Callable[[Group], int]" = lambda _: 0) -> None:
        """`measure` returns the bytes of the members of a group."""
        self.measure = measure
        self._counted = self._taken = self._before = 0

    @property
    def used(self) -> int:
        return self._counted + self._taken

    def take(self, size: int, most: int, group_id: str) -> None:
        """Take `size` bytes for a member of a group. Raises KafkaError (GROUP_MAX_SIZE_REACHED) if there is no room."""
        if self.used + size > most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"a member of group {group_id[:100]!r} needs {size} bytes, and members of groups on this broker use "
                f"{self.used}; at most {most} are allowed (sluicegate.groups.members.bytes.max)",
            )
        self._taken += size

    def begin_count(self) -> None:
        """Record that a new count of the members' memory begins.

        Bytes that are taken during the count may be counted twice until the next count.
        """
        self._before = self._taken

    def end_count(self, size: int) -> None:
        """Record the result of a count: the bytes of all members."""
        self._counted = size
        self._taken -= self._before
