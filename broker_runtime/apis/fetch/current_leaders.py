"""The leader of a partition that this broker does not lead, as part of the answer that refuses it (KIP-951). Pure.

The client can switch to that broker at once, without a Metadata request.
"""

from struct import Struct
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from kafka_bytes.varints import write_uvarint

OF_FETCH, OF_PRODUCE = 1, 0
"""The tag of a partition's leader in each answer. The tag of the brokers is the same in both answers."""
_LEADER = Struct(">ii")
_INT32 = Struct(">i")
_NO_TAGS = b"\x00"
_ENDPOINTS_TAG = 0


def reports_leader(code: int) -> bool:
    """Return whether the error code refuses a client because of the partition's leader."""
    return code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class CurrentLeaders:
    """The brokers that lead the refused partitions of one answer."""

    __slots__ = ("_brokers", "_image", "_listener", "_tag")

    def __init__(self, image: MetadataImage, listener: str, tag: int) -> None:
        self._image, self._listener, self._tag = image, listener, tag
        self._brokers: dict[int, bytes] = {}

    def partition_tags(self, topic: str | UUID, index: int) -> bytes:
        """Return the tagged fields at the end of a partition in the answer. Unknown values are -1."""
        topics = self._image.topics
        known = topics.by_id(topic) if isinstance(topic, UUID) else topics.get(topic)
        part = None if known is None else known.partitions.get(index)
        leader, epoch = (-1, -1) if part is None else (part.leader, part.leader_epoch)
        self._note(leader)
        content = _LEADER.pack(leader, epoch) + _NO_TAGS
        return bytes((1, self._tag, len(content))) + content

    def _note(self, leader: int) -> None:
        broker = self._image.brokers.get(leader)
        if broker is None or broker.fenced or leader in self._brokers:
            return
        endpoint = broker.endpoint(self._listener)
        if endpoint is not None:
            place = string(endpoint.host, flexible=True) + _INT32.pack(endpoint.port)
            self._brokers[leader] = _INT32.pack(leader) + place + nullable_string(broker.rack, flexible=True) + _NO_TAGS

    def answer_tags(self) -> bytes:
        """Return the tagged fields at the end of the answer, after all its partitions are packed."""
        if not self._brokers:
            return _NO_TAGS
        content = array_length(len(self._brokers), flexible=True) + b"".join(self._brokers.values())
        return bytes((1, _ENDPOINTS_TAG)) + write_uvarint(len(content)) + content
