"""What a broker knows of groups before it coordinates one: their types, and how long an id may be. Pure data."""

from enum import Enum

TEXT_BYTES_MAX = 0x7FFF
"""Of one text in a record, an id of a group for example: Apache Kafka reads no longer one."""


class GroupType(Enum):
    """By the protocol of the members; the values are the words of ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    PUSH = "push"

    @property
    def told(self) -> str:
        """To tools, which leave out groups of types that they do not know: push groups are classic ones to them."""
        return GroupType.CLASSIC.value if self is GroupType.PUSH else self.value
