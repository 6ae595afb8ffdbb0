"""The result of a decision without an answer. Pure."""

from collections.abc import Sequence

from broker_runtime.groups.records import GroupRecord

Decided = tuple[Sequence[GroupRecord], None]
NOTHING: Decided = ((), None)
