"""The requests of Kafka's protocol that the consumer sends: ApiVersions, Metadata, ListOffsets, OffsetCommit.

Pure. It uses one version of each, which every broker since Kafka 2.1 has and none of which is flexible; Fetch is in
`fetch`. Reading raises ProtocolError. Readers get the body of a response, without its correlation ID.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from kafka_bytes.frames import request_frame
from kafka_bytes.push.messages import Broker
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fields import INT8, INT16, INT32, INT64, Cursor, items, text

FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, API_VERSIONS = 1, 2, 3, 8, 18
LIST_OFFSETS_VERSION, METADATA_VERSION, OFFSET_COMMIT_VERSION, API_VERSIONS_VERSION = 4, 7, 5, 0
_CONSUMER = INT32.pack(-1)
"""The replica ID of a client that is not a replica."""
_API_RANGE, _PARTITION_HEAD, _LISTED = Struct(">hhh"), Struct(">hiii"), Struct(">ihqqi")
_COMMITTED = Struct(">ih")


class Request(NamedTuple):
    """A request without the header that its connection adds."""

    api_key: int
    version: int
    body: bytes

    def framed(self, correlation_id: int, client_id: str) -> bytes:
        return request_frame(self.api_key, self.version, correlation_id, client_id, self.body)


def by_topic(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """Group encoded partitions by topic, in the order in which the topics first appear."""
    topics: dict[str, list[bytes]] = {}
    for topic, written in parts:
        topics.setdefault(topic, []).append(written)
    return items(INT32, (text(topic) + items(INT32, written) for topic, written in topics.items()))


def api_versions_request() -> Request:
    return Request(API_VERSIONS, API_VERSIONS_VERSION, b"")


def read_api_versions(body: memoryview) -> Mapping[int, tuple[int, int]]:
    """Read an ApiVersions response: return the lowest and the highest version of each API."""
    cursor = Cursor(body)
    code = cursor.number(INT16)
    if code:
        raise ProtocolError(f"ApiVersions was refused with error {code}")
    ranges = cursor.items(INT32, lambda each: each.fixed(_API_RANGE))
    return {key: (low, high) for key, low, high in ranges}


class Leader(NamedTuple):
    """The leader of one partition. `node` is -1 without a leader; then `error_code` gives the reason."""

    error_code: int
    node: int
    epoch: int


class Metadata(NamedTuple):
    """A broker's information about the requested topics."""

    brokers: tuple[Broker, ...]
    leaders: Mapping[tuple[str, int], Leader]


def metadata_request(topics: Sequence[str]) -> Request:
    """Build a Metadata request that does not create topics."""
    return Request(METADATA, METADATA_VERSION, items(INT32, map(text, topics)) + INT8.pack(0))


def read_metadata(body: memoryview) -> Metadata:
    cursor = Cursor(body)
    cursor.number(INT32)
    brokers = cursor.items(INT32, _broker)
    cursor.nullable_text()
    cursor.number(INT32)
    leaders: dict[tuple[str, int], Leader] = {}
    for topic, partitions in cursor.items(INT32, _topic):
        for number, leader in partitions:
            leaders[topic, number] = leader
    cursor.end()
    return Metadata(brokers, leaders)


def _broker(cursor: Cursor) -> Broker:
    found = Broker(cursor.number(INT32), cursor.text(), cursor.number(INT32))
    cursor.nullable_text()
    return found


def _topic(cursor: Cursor) -> tuple[str, tuple[tuple[int, Leader], ...]]:
    cursor.number(INT16)
    name = cursor.text()
    cursor.number(INT8)
    return name, cursor.items(INT32, _partition)


def _partition(cursor: Cursor) -> tuple[int, Leader]:
    code, number, node, epoch = cursor.fixed(_PARTITION_HEAD)
    for _ in ("replicas", "in sync", "offline"):
        cursor.items(INT32, lambda each: each.number(INT32))
    return number, Leader(code, node, epoch)


class Sought(NamedTuple):
    """A partition whose log end (-1) or log start (-2) is requested."""

    topic: str
    partition: int
    leader_epoch: int
    place: int


def list_offsets_request(sought: Iterable[Sought], *, read_committed: bool) -> Request:
    layout = Struct(">iiq")
    parts = ((each.topic, layout.pack(each.partition, each.leader_epoch, each.place)) for each in sought)
    return Request(LIST_OFFSETS, LIST_OFFSETS_VERSION, _CONSUMER + INT8.pack(read_committed) + by_topic(parts))


def read_list_offsets(body: memoryview) -> Mapping[tuple[str, int], tuple[int, int]]:
    """Read a ListOffsets response: return error code and offset of each partition."""
    cursor = Cursor(body)
    cursor.number(INT32)
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, parts in cursor.items(INT32, lambda each: (each.text(), each.items(INT32, _listed))):
        for number, code, _, offset, _ in parts:
            found[topic, number] = code, offset
    cursor.end()
    return found


def _listed(cursor: Cursor) -> tuple[int, ...]:
    return cursor.fixed(_LISTED)


def offset_commit_request(group_id: str, member_id: str, offsets: Iterable[tuple[str, int, int]]) -> Request:
    """Build the commit of a member without a generation, like a registered consumer.

    `offsets` are topic, partition and offset.
    """
    no_metadata = text("")
    parts = ((topic, INT32.pack(number) + INT64.pack(offset) + no_metadata) for topic, number, offset in offsets)
    body = text(group_id) + INT32.pack(-1) + text(member_id) + by_topic(parts)
    return Request(OFFSET_COMMIT, OFFSET_COMMIT_VERSION, body)


def read_offset_commit(body: memoryview) -> Mapping[tuple[str, int], int]:
    """Read an OffsetCommit response: return the error code of each partition."""
    cursor = Cursor(body)
    cursor.number(INT32)
    found: dict[tuple[str, int], int] = {}
    for topic, parts in cursor.items(INT32, lambda each: (each.text(), each.items(INT32, _committed))):
        for number, code in parts:
            found[topic, number] = code
    cursor.end()
    return found


def _committed(cursor: Cursor) -> tuple[int, ...]:
    return cursor.fixed(_COMMITTED)
