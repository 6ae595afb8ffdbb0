"""The registration of a broker: its release, its features, and the tags in its file."""

from broker_runtime.cluster.self_description import self_description
from broker_runtime.config import broker_settings
from broker_runtime.release import VERSION, version_int
from broker_runtime.wire.protocol_versions import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN


def test_a_broker_describes_itself() -> None:
    given = {"node.id": "1", "message.max.bytes": "5000", "tag.rack": "r8a9", "tag.aws.zone": "eu-central-1"}
    described = self_description(broker_settings(given))
    assert described.protocol_versions == (PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX)
    assert dict(described.tags) == {
        "broker.version": f"{VERSION}-sluicegate",
        "broker.version.int": f"0x{version_int(VERSION):08x}",
        "compression.codecs": "1=gzip,2=snappy,3=lz4,4=zstd",
        "message.max.bytes": "5000",
        "message.formats": "v2",
        "rack": "r8a9",
        "aws.zone": "eu-central-1",
    }
