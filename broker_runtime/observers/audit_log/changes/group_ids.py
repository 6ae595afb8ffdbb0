"""The group that a request is about, read from its first bytes. Pure."""

from struct import Struct
from typing import Final

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.versions import (
    ADD_OFFSETS_TO_TXN,
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)

GROUP_APIS: Final = frozenset(
    {
        *(OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT),
        *(ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT),
    }
)
"""The APIs whose requests have the ID of their group near the beginning."""

_SEVERAL_GROUPS_SINCE: Final = 8
"""The first version of OffsetFetch whose requests may name several groups."""
_PRODUCER: Final = Struct(">qh")
"""A producer's id and epoch."""


def group_id_of(api_key: int, version: int, flexible: bool, frame: memoryview, body_at: int) -> str | None:
    """Return the group of a request of one of GROUP_APIS; None for a malformed request, and for several groups."""
    reader = RequestReader(frame, body_at, flexible)
    try:
        if api_key == OFFSET_FETCH and version >= _SEVERAL_GROUPS_SINCE and reader.array_length() != 1:
            return None
        if api_key in (ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT):
            reader.string()
        if api_key == ADD_OFFSETS_TO_TXN:
            reader.fixed(_PRODUCER)
        return reader.string()
    except ProtocolError:
        # The handler refuses the request.
        return None
