"""Records survive their encoding; invalid bytes are refused."""

from uuid import UUID

import msgspec
import pytest

from broker_runtime.metadata.areas.brokers import (
    BrokerEndpoint,
    FenceBroker,
    RegisterBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from broker_runtime.metadata.areas.cluster import ClusterRecord, FeatureLevelRecord
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.producers import ProducerIdsRecord
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.codec import RecordFormatError, decode_record, encode_record
from broker_runtime.metadata.record import MetadataRecord

EVERY_KIND: list[MetadataRecord] = [
    ClusterRecord("abc"),
    FeatureLevelRecord("x", 3),
    RegisterBroker(1, UUID(int=9), 2**40, (BrokerEndpoint("EXTERNAL", "::1", 9094),), "rack-1"),
    UnregisterBroker(1, 7),
    FenceBroker(1, 7),
    UnfenceBroker(1, 7),
    TopicRecord("orders", UUID(int=5)),
    PartitionRecord(UUID(int=5), 3, (1, 2), (1,), -1, 4, 6),
    PartitionRecord(UUID(int=5), 3, (1, 2, 3), (1,), 1, 4, 6, (), (), (2, 3)),
    RemoveTopic(UUID(int=5)),
    ConfigRecord(4, "", "max.connections", None),
    ClientQuotaRecord((("ip", None),), "connection_creation_rate", 12.5),
    ProducerIdsRecord(1, 7, 1000),
]


NO_TEXT = encode_record(ClusterRecord("cluster")).replace(b"cluster", b"cl\x80ster")
DEEP = encode_record(ClusterRecord("cluster")).replace(b"\x92", b"\x93", 1) + b"\x91" * 100_000


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_written(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "value", [None, b"", b"\x02\x90", b"\x01", b"\x01\x91\x63", b"\x01not messagepack", NO_TEXT, DEEP]
)
def test_other_bytes_are_refused(value: bytes | None) -> None:
    with pytest.raises(RecordFormatError):
        decode_record(value)


def test_a_partition_of_a_journal_before_kip_966_has_nobody_eligible() -> None:
    now = PartitionRecord(UUID(int=5), 3, (1, 2), (1,), 1, 4, 6, (2,), ())
    version, fields = encode_record(now)[:1], msgspec.msgpack.decode(encode_record(now)[1:])
    assert fields[-1] == []
    assert decode_record(version + msgspec.msgpack.encode(fields[:-1])) == now
