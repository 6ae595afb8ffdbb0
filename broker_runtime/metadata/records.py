"""Metadata records: what the controller writes to its journal and every broker reads from it.

Pure. One record is one journal record's value: a version byte, then MessagePack (msgspec) of a tagged struct. A change
that old readers could misread needs a new version; a new field with a default does not. The set follows KRaft's
(KIP-500, KIP-631), the encoding does not.
"""

from typing import TypeAlias
from uuid import UUID

import msgspec

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
"""Kafka's reserved id of the metadata topic."""

_VERSION = 1

NO_LEADER = -1


class BrokerEndpoint(msgspec.Struct, frozen=True, array_like=True):
    listener: str
    host: str
    port: int
    security_protocol: int = 0


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """Subclasses are told apart by their tag, which is part of the format: never reuse one."""


class RegisterBroker(_Record, frozen=True, tag=1):
    """A new incarnation, which starts fenced: its epoch is the offset of this record. With the epoch that the broker
    has already it is the same incarnation, and only the rest is new."""

    broker_id: int
    incarnation: UUID
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest, highest supported level)."""
    whole_since: int = -1
    """The broker epoch since whose registration its data is whole, by its own word; -1 is `epoch` itself."""


class UnregisterBroker(_Record, frozen=True, tag=2):
    broker_id: int
    epoch: int


class FenceBroker(_Record, frozen=True, tag=3):
    broker_id: int
    epoch: int


class UnfenceBroker(_Record, frozen=True, tag=4):
    broker_id: int
    epoch: int


class TopicRecord(_Record, frozen=True, tag=5):
    name: str
    id: UUID


class PartitionRecord(_Record, frozen=True, tag=6):
    """A partition as it is from here on, new or changed."""

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    """Of a reassignment in progress: replicas that are in `replicas` only because of it, in any order."""
    removing: tuple[int, ...] = ()
    """Replicas that go when the added ones are in sync."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): not in sync, and have everything below the high watermark all the same."""


class RemoveTopic(_Record, frozen=True, tag=7):
    """Its partitions and its configuration go with it."""

    id: UUID


class ConfigRecord(_Record, frozen=True, tag=8):
    """`value` None takes the key away. `name` "" of a broker resource is the cluster-wide default."""

    resource_type: int
    name: str
    key: str
    value: str | None


class ClientQuotaRecord(_Record, frozen=True, tag=9):
    """`entity` is sorted by type; a name of None is the default entity. `value` None takes the quota away."""

    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float | None


class ProducerIdsRecord(_Record, frozen=True, tag=10):
    """The first producer id that was not handed out yet."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


class ClusterRecord(_Record, frozen=True, tag=11):
    """The first record of a journal: whose it is."""

    cluster_id: str


class FeatureLevelRecord(_Record, frozen=True, tag=12):
    name: str
    level: int


class StopBroker(_Record, frozen=True, tag=13):
    """A controlled shutdown has begun: the broker still runs, and may lead or join in-sync sets no more."""

    broker_id: int
    epoch: int
    offset: int
    """Its own: the others must have come so far in the metadata before the broker may go."""


class ControllerChange(_Record, frozen=True, tag=14):
    """The first record of each active controller. Its epoch is greater than every one before it."""

    controller_id: int
    epoch: int


Record: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | FenceBroker
    | UnfenceBroker
    | TopicRecord
    | PartitionRecord
    | RemoveTopic
    | ConfigRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | ClusterRecord
    | FeatureLevelRecord
    | StopBroker
    | ControllerChange
)

_ENCODER = msgspec.msgpack.Encoder(uuid_format="bytes")
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


class RecordFormatError(Exception):
    """Bytes that are no metadata record of a version that this node knows."""


def encode_record(record: Record) -> bytes:
    return bytes((_VERSION,)) + _ENCODER.encode(record)


def decode_record(value: bytes | None) -> Record:
    if not value or value[0] != _VERSION:
        found = "nothing" if not value else f"version {value[0]}"
        raise RecordFormatError(f"a metadata record of version {_VERSION} was expected, found {found}")
    try:
        return _DECODER.decode(memoryview(value)[1:])
    except msgspec.MsgspecError as error:
        raise RecordFormatError(f"a metadata record cannot be read: {error}") from error
