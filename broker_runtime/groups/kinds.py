"""Types of groups and the longest text of a record, for modules that every broker imports. Pure data."""

from enum import Enum

TEXT_BYTES_MAX = 0x7FFF
"""Longest text of a record, such as the id of a group, in bytes. Apache Kafka reads no longer ones."""


class GroupType(Enum):
    """By the protocol of the members; the values are the words of ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    PUSH = "push"

    @property
    def told(self) -> str:
        """To tools, which leave out groups of types that they do not know: push groups are classic ones to them."""
        return GroupType.CLASSIC.value if self is GroupType.PUSH else self.value
