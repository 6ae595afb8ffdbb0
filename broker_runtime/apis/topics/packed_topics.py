"""The topics of Metadata's answer, versions 0 to 13, packed by hand, because kio takes ten times as long. Pure.

After each change all clients request all topics, so these answers contain thousands of partitions.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct, pack
from uuid import UUID

from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import Topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.encode import Pieces
from broker_runtime.wire.encoding.writer import array_length, nullable_string

_INTERNAL_SINCE, _OFFLINE_SINCE, _LEADER_EPOCH_SINCE, _OPERATIONS_SINCE, _ID_SINCE = 1, 5, 7, 8, 10
_FLEXIBLE_SINCE = 9
_CLUSTER_OPERATIONS_IN = range(8, 11)
_ERROR_SINCE = 13
_LISTENER_NOT_FOUND_SINCE = 6
_NO_ID = UUID(int=0)
_INT16 = Struct(">h")
_PARTITIONS_OF_A_STEP = 32
_NOT_INTERNAL, _INTERNAL = b"\x00", b"\x01"
_INT32 = Struct(">i")
_PARTITION_V0 = Struct(">hii")
_PARTITION_V7 = Struct(">hiii")


Operations = int | Callable[[str], int]
"""The authorized operations on each topic, or a function that returns them for a topic's name."""


def visible_leader(leader: int, listener: str, image: MetadataImage, version: int) -> tuple[int, ErrorCode]:
    """Return the leader that clients of a listener see.

    If they cannot reach the leader, return -1 and an error.
    """
    broker = image.brokers.get(leader)
    if broker is None or broker.fenced:
        return -1, ErrorCode.LEADER_NOT_AVAILABLE
    if broker.endpoint(listener) is None:
        told = version >= _LISTENER_NOT_FOUND_SINCE
        return -1, ErrorCode.LISTENER_NOT_FOUND if told else ErrorCode.LEADER_NOT_AVAILABLE
    return leader, ErrorCode.NONE


def offline(replicas: Sequence[int], image: MetadataImage) -> list[int]:
    return [r for r in replicas if (b := image.brokers.get(r)) is None or b.fenced]


class PackedTopics:
    """Packs topics for one version of Metadata and one listener.

    `error` is the first error code of their partitions. The image may change between two steps: each topic is packed in
    its state at its step. `operations` are the operations that the client may perform on each topic.
    """

    def __init__(self, image: MetadataImage, listener: str, version: int, operations: Operations = NOT_ASKED) -> None:
        self.error = 0
        self._version = version
        self._operations = operations
        self._flexible = flexible = version >= _FLEXIBLE_SINCE
        # Thousands of partitions have few leaders, and few sets of replicas.
        self._leader = cache(lambda leader: visible_leader(leader, listener, image, version))
        self._replicas = cache(partial(_packed, flexible=flexible))
        self._offline = cache(lambda replicas: _packed(offline(replicas, image), flexible))

    def around(self, answer: bytes, count: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after `count` topics. `answer` is a whole body without topics."""
        behind = self._flexible + (4 if self._version in _CLUSTER_OPERATIONS_IN else 0)
        behind += 2 if self._version >= _ERROR_SINCE else 0
        end = len(answer) - behind
        begin = end - (1 if self._flexible else 4)
        return answer[:begin] + array_length(count, self._flexible), answer[end:]

    def absent(self, name: str | None, topic_id: UUID | None, code: ErrorCode) -> bytes:
        """Pack a topic that does not exist. From version 12 on the topic may have an id and no name."""
        return self._head(code, name, topic_id or _NO_ID, 0) + self._end(name)

    def denied(self, name: str | None, topic_id: UUID | None) -> bytes:
        """Pack a topic that the client may not describe."""
        self.error = self.error or ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return self._head(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic_id or _NO_ID, 0) + self._end_with(NOT_ASKED)

    def _head(self, code: int, name: str | None, topic_id: UUID, partitions: int) -> bytes:
        version, flexible = self._version, self._flexible
        found = [_INT16.pack(code), nullable_string(name, flexible)]
        if version >= _ID_SINCE:
            found.append(topic_id.bytes)
        if version >= _INTERNAL_SINCE:
            found.append(_INTERNAL if name in INTERNAL_TOPICS else _NOT_INTERNAL)
        found.append(array_length(partitions, flexible))
        return b"".join(found)

    def _end(self, name: str | None) -> bytes:
        operations = self._operations
        if not isinstance(operations, int):
            operations = NOT_ASKED if name is None else operations(name)
        return self._end_with(operations)

    def _end_with(self, operations: int) -> bytes:
        packed = _INT32.pack(operations) if self._version >= _OPERATIONS_SINCE else b""
        return packed + (b"\x00" if self._flexible else b"")

    def pack(self, topic: Topic, pieces: Pieces) -> Steps[None]:
        version, flexible = self._version, self._flexible
        partitions = sorted(topic.partitions.items())
        found = [self._head(ErrorCode.NONE, topic.name, topic.id, len(partitions))]
        end = b"\x00" if flexible else b""
        for number, (index, part) in enumerate(partitions, 1):
            leader, code = self._leader(part.leader)
            if code and not self.error:
                self.error = code
            if version >= _LEADER_EPOCH_SINCE:
                found.append(_PARTITION_V7.pack(code, index, leader, part.leader_epoch))
            else:
                found.append(_PARTITION_V0.pack(code, index, leader))
            found += (self._replicas(part.replicas), self._replicas(part.isr))
            if version >= _OFFLINE_SINCE:
                found.append(self._offline(part.replicas))
            found.append(end)
            if number % _PARTITIONS_OF_A_STEP == 0:
                pieces.add(b"".join(found))
                found.clear()
                yield
        found.append(self._end(topic.name))
        pieces.add(b"".join(found))
        yield


def _packed(ids: Sequence[int], flexible: bool) -> bytes:
    return array_length(len(ids), flexible) + pack(f">{len(ids)}i", *ids)
