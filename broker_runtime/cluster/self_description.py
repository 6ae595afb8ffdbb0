"""This broker's description of itself for clients, which it registers with the controller. Pure.

The responding code adds what follows from the metadata (addresses, the dynamic configuration).
"""

from dataclasses import dataclass

from broker_runtime.config import BrokerSettings
from broker_runtime.config.keys.tags import (
    BROKER_VERSION,
    BROKER_VERSION_INT,
    COMPRESSION_CODECS,
    MESSAGE_FORMATS,
    MESSAGE_MAX_BYTES,
    tags_in,
)
from broker_runtime.metadata.areas.brokers import UNTOLD
from broker_runtime.release import VERSION, version_int
from broker_runtime.wire.protocol_versions import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN
from kafka_bytes.compression import NAMES

_MESSAGE_FORMATS = "v2"
"""The lowest served version of Produce no longer has older formats."""


@dataclass(frozen=True, slots=True)
class SelfDescription:
    """A broker's description of itself: its lowest and highest protocol version, and (name, value) of each tag."""

    protocol_versions: tuple[int, int]
    tags: tuple[tuple[str, str], ...]


SILENT = SelfDescription(UNTOLD, ())


def self_description(settings: BrokerSettings) -> SelfDescription:
    built_in = {
        BROKER_VERSION: f"{VERSION}-sluicegate",
        BROKER_VERSION_INT: f"0x{version_int(VERSION):08x}",
        COMPRESSION_CODECS: ",".join(f"{number}={name}" for number, name in sorted(NAMES.items())),
        MESSAGE_MAX_BYTES: str(settings.config.message_max_bytes),
        MESSAGE_FORMATS: _MESSAGE_FORMATS,
    }
    tags = {**tags_in(settings.given), **built_in}
    return SelfDescription((PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX), tuple(tags.items()))
