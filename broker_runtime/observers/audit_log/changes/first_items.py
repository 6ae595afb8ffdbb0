"""The first items of requests that their handlers read themselves, because these may name thousands. Pure.

Their bytes are valid only before the handler runs, in the same iteration of the event loop.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from broker_runtime.observers.audit_log.changes.asked import GroupsAsked, OffsetsAsked
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.versions import DELETE_GROUPS, OFFSET_DELETE

_FIRST: Final = 200
_INT32: Final = Struct(">i")


def first_items(api_key: int, reader: RequestReader) -> tuple[Any, int]:
    """Return the argument of `asked.resources` for the request, and the least number of items that were not read.

    Raises ProtocolError for a malformed request.
    """
    return _BY_API[api_key](reader)


def _groups(reader: RequestReader) -> tuple[GroupsAsked, int]:
    count = reader.array_length()
    names = [reader.string() for _ in range(min(count, _FIRST))]
    return GroupsAsked(names), count - len(names)


def _offsets(reader: RequestReader) -> tuple[OffsetsAsked, int]:
    found = OffsetsAsked(reader.string(), [])
    topics = reader.array_length()
    for number in range(1, topics + 1):
        topic, count = reader.string(), reader.array_length()
        for _ in range(min(count, _FIRST - len(found.partitions))):
            (index,) = reader.fixed(_INT32)
            found.partitions.append((topic, index))
            count -= 1
        if count or len(found.partitions) >= _FIRST:
            return found, count + topics - number
    return found, 0


_BY_API: Final[Mapping[int, Callable[[RequestReader], tuple[Any, int]]]] = {
    DELETE_GROUPS: _groups,
    OFFSET_DELETE: _offsets,
}
