"""The format of the journal and the snapshots: exactly these bytes, independent of the code."""

from uuid import UUID

import pytest

from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from broker_runtime.metadata.areas.brokers import (
    BrokerEndpoint,
    FenceBroker,
    RegisterBroker,
    StopBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from broker_runtime.metadata.areas.cluster import ClusterRecord, ControllerChange, FeatureLevelRecord
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.producers import ProducerIdsRecord
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.areas.scram_credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.codec import decode_record, encode_record
from broker_runtime.metadata.image import RECORD_TYPES, MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.snapshots import load_in_steps, snapshot_pieces
from broker_runtime.slicing.steps import at_once

ORDERS, GONE = UUID(int=5), UUID(int=6)
ENDPOINTS = (BrokerEndpoint("INTERNAL", "broker-0", 9092), BrokerEndpoint("EXTERNAL", "::1", 9094, 1))
HISTORY: list[tuple[MetadataRecord, str]] = [
    (ClusterRecord("cluster"), "01920ba7636c7573746572"),
    (FeatureLevelRecord("metadata.version", 20), "01930cb06d657461646174612e76657273696f6e14"),
    (ControllerChange(3, 7), "01930e0307"),
    (
        RegisterBroker(
            1, UUID(int=9), 3, ENDPOINTS, "rack-1", (("metadata.version", 1, 20),), 2, (1, 2), (("rack", "r8a9"),)
        ),
        "019a0101c41000000000000000000000000000000009039294a8494e5445524e414ca862726f6b65722d30cd23840094a845"
        "585445524e414ca33a3a31cd238601a67261636b2d319193b06d657461646174612e76657273696f6e011402920102"
        "9192a47261636ba472386139",
    ),
    (UnfenceBroker(1, 3), "0193040103"),
    (
        RegisterBroker(2, UUID(int=10), 5, ENDPOINTS),
        "019a0102c4100000000000000000000000000000000a059294a8494e5445524e414ca862726f6b65722d30cd23840094a845"
        "585445524e414ca33a3a31cd238601c090ff92ffff90",
    ),
    (FenceBroker(2, 5), "0193030205"),
    (
        RegisterBroker(4, UUID(int=11), 7, ENDPOINTS[:1]),
        "019a0104c4100000000000000000000000000000000b079194a8494e5445524e414ca862726f6b65722d30cd238400c090ff92ffff90",
    ),
    (UnfenceBroker(4, 7), "0193040407"),
    (StopBroker(4, 7, 9), "01940d040709"),
    (RegisterBroker(6, UUID(int=12), 10, ()), "019a0106c4100000000000000000000000000000000c0a90c090ff92ffff90"),
    (UnregisterBroker(6, 10), "019302060a"),
    (TopicRecord("orders", ORDERS), "019305a66f7264657273c41000000000000000000000000000000005"),
    (
        PartitionRecord(ORDERS, 0, (1, 2), (1,), 1, 4, 6),
        "019b06c41000000000000000000000000000000005009201029101010406909090",
    ),
    (
        PartitionRecord(ORDERS, 1, (1, 2, 4), (2,), -1, 4, 6, (4,), (1,), (2, 4)),
        "019b06c4100000000000000000000000000000000501930102049102ff040691049101920204",
    ),
    (TopicRecord("gone", GONE), "019305a4676f6e65c41000000000000000000000000000000006"),
    (ConfigRecord(2, "gone", "retention.ms", "1"), "01950802a4676f6e65ac726574656e74696f6e2e6d73a131"),
    (RemoveTopic(GONE), "019207c41000000000000000000000000000000006"),
    (ConfigRecord(2, "orders", "retention.ms", "7"), "01950802a66f7264657273ac726574656e74696f6e2e6d73a137"),
    (ConfigRecord(4, "1", "max.connections", "5"), "01950804a131af6d61782e636f6e6e656374696f6e73a135"),
    (ConfigRecord(4, "", "max.connections", "10"), "01950804a0af6d61782e636f6e6e656374696f6e73a23130"),
    (ConfigRecord(4, "2", "max.connections", None), "01950804a132af6d61782e636f6e6e656374696f6e73c0"),
    (
        ConfigRecord(32, "readers", "consumer.session.timeout.ms", "60000"),
        "01950820a772656164657273bb636f6e73756d65722e73657373696f6e2e74696d656f75742e6d73a53630303030",
    ),
    (ConfigRecord(16, "all", "metrics", "*"), "01950810a3616c6ca76d657472696373a12a"),
    (ConfigRecord(3, "of a newer version", "key", "1"), "01950803b26f662061206e657765722076657273696f6ea36b6579a131"),
    (
        ClientQuotaRecord((("ip", None),), "connection_creation_rate", 12.5),
        "0194099192a26970c0b8636f6e6e656374696f6e5f6372656174696f6e5f72617465cb4029000000000000",
    ),
    (
        ClientQuotaRecord((("client-id", "c"), ("user", None)), "producer_byte_rate", 1e6),
        "0194099292a9636c69656e742d6964a16392a475736572c0b270726f64756365725f627974655f72617465cb412e848000000000",
    ),
    (ProducerIdsRecord(1, 3, 2000), "01940a0103cd07d0"),
    (
        AccessControlEntryRecord(UUID(int=21), 2, "orders", 3, "User:alice", "*", 3, 3),
        "019912c4100000000000000000000000000000001502a66f726465727303aa557365723a616c696365a12a0303",
    ),
    (
        AccessControlEntryRecord(UUID(int=22), 3, "team-", 4, "User:*", "10.0.0.1", 2, 2),
        "019912c4100000000000000000000000000000001603a57465616d2d04a6557365723a2aa831302e302e302e310202",
    ),
    (RemoveAccessControlEntryRecord(UUID(int=22)), "019213c41000000000000000000000000000000016"),
    (
        UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096),
        "01970fa5616c69636501c40473616c74c40673746f726564c406736572766572cd1000",
    ),
    (
        UserScramCredentialRecord("alice", 2, b"salt", b"stored", b"server", 8192),
        "01970fa5616c69636502c40473616c74c40673746f726564c406736572766572cd2000",
    ),
    (RemoveUserScramCredentialRecord("alice", 2), "019310a5616c69636502"),
]
EARLIER: list[tuple[MetadataRecord, str]] = [
    (RegisterBroker(6, UUID(int=12), 10, ()), "01980106c4100000000000000000000000000000000c0a90c090ff"),
]
"""Written before a kind of record had its last fields."""
TAKEN_MS = 1_700_000_000_000
SNAPSHOT = (
    "0000000000000000000003b7ffffffff02c4a0e0450000000000160000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
    "ffffff0000001722000000011601920ba7636c75737465720016000002010a01930e03070036000004012a01930cb06d657461646174"
    "612e76657273696f6e1400e80100000601da01019a0101c41000000000000000000000000000000009039294a8494e5445524e414ca8"
    "62726f6b65722d30cd23840094a845585445524e414ca33a3a31cd238601a67261636b2d319193b06d657461646174612e7665727369"
    "6f6e0114039201029192a47261636ba4723861390016000008010a0193040103009e0100000a019001019a0102c41000000000000000"
    "00000000000000000a059294a8494e5445524e414ca862726f6b65722d30cd23840094a845585445524e414ca33a3a31cd238601c090"
    "ff92ffff90007800000c016c019a0104c4100000000000000000000000000000000b079194a8494e5445524e414ca862726f6b65722d"
    "30cd238400c0900792ffff90001600000e010a01930404070018000010010c01940d04070900440000120138019305a66f7264657273"
    "c41000000000000000000000000000000005004e0000140142019b06c410000000000000000000000000000000050092010291010104"
    "069090900058000016014c019b06c4100000000000000000000000000000000501930102049102ff0406910491019202040040000018"
    "013401950802a66f7264657273ac726574656e74696f6e2e6d73a137003c00001a013001950804a0af6d61782e636f6e6e656374696f"
    "6e73a23130003c00001c013001950804a131af6d61782e636f6e6e656374696f6e73a135004600001e013a01950803b26f662061206e"
    "657765722076657273696f6ea36b6579a1310030000020012401950810a3616c6ca76d657472696373a12a0068000022015c01950820"
    "a772656164657273bb636f6e73756d65722e73657373696f6e2e74696d656f75742e6d73a53630303030007400002401680194099292"
    "a9636c69656e742d6964a16392a475736572c0b270726f64756365725f627974655f72617465cb412e84800000000000620000260156"
    "0194099192a26970c0b8636f6e6e656374696f6e5f6372656174696f6e5f72617465cb4029000000000000001c000028011001940aff"
    "ffcd07d0006600002a015a019912c4100000000000000000000000000000001502a66f726465727303aa557365723a616c696365a12a"
    "0303005200002c014601970fa5616c69636501c40473616c74c40673746f726564c406736572766572cd100000"
)


def image() -> MetadataImage:
    made = MetadataImage()
    for offset, (record, _) in enumerate(HISTORY):
        made.apply(record, offset)
    return made


@pytest.mark.parametrize(("record", "written"), HISTORY)
def test_the_bytes_of_a_record(record: MetadataRecord, written: str) -> None:
    assert encode_record(record).hex() == written
    assert decode_record(bytes.fromhex(written)) == record


@pytest.mark.parametrize(("record", "written"), EARLIER)
def test_the_bytes_of_a_record_of_an_earlier_release(record: MetadataRecord, written: str) -> None:
    assert decode_record(bytes.fromhex(written)) == record


def test_the_bytes_of_every_kind_of_record_are_told() -> None:
    assert {type(record) for record, _ in HISTORY} == set(RECORD_TYPES)


def test_the_bytes_of_a_snapshot() -> None:
    assert b"".join(snapshot_pieces(image(), TAKEN_MS)).hex() == SNAPSHOT
    assert at_once(load_in_steps(bytes.fromhex(SNAPSHOT), len(HISTORY))) == image()
