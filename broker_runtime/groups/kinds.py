"""Types of groups and the maximum length of a text in a record, for modules that every broker imports. Pure data."""

from enum import Enum

TEXT_BYTES_MAX = 0x7FFF
"""Maximum length of a text in a record, such as a group id, in bytes. Apache Kafka reads no longer texts."""


class GroupType(Enum):
    """The group protocol that a group's members speak. The values are those of ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    PUSH = "push"

    @property
    def shown(self) -> str:
        """Return the type shown to tools.

        Tools leave out groups of unknown types, so a push group is shown as a classic one.
        """
        return GroupType.CLASSIC.value if self is GroupType.PUSH else self.value
