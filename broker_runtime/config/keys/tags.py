"""The keys `tag.<name>`, with which an operator adds to the brokers' descriptions of themselves (BrokerMetadata). Pure.

A broker's built-in tags are named here, too: a key must not give one of them another meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode, Value
from broker_runtime.config.declaring.numbers import trim
from broker_runtime.remembering import remembered

TAG_PREFIX = "tag."
TAGS_MAX = 64
"""Maximum number of tags in a broker's file, in its dynamic configuration, and in the default of all brokers.

A response for all brokers has the tags of all.
"""
VALUE_BYTES_MAX = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")

BROKER_ID = "broker.id"
BROKER_VERSION = "broker.version"
BROKER_VERSION_INT = "broker.version.int"
COMPRESSION_CODECS = "compression.codecs"
MESSAGE_MAX_BYTES = "message.max.bytes"
MESSAGE_FORMATS = "message.formats"
ENDPOINTS = "endpoints"


@dataclass(frozen=True, slots=True)
class BuiltInTag:
    """A tag of a broker that has a value without being configured. `format` describes its value."""

    name: str
    example: str
    format: str


BUILT_IN_TAGS = (
    BuiltInTag(BROKER_ID, "3", "The broker's node id, in decimal digits."),
    BuiltInTag(
        BROKER_VERSION,
        "0.1.0-sluicegate",
        "For display: numbers separated by dots, then a dash and the name of the software.",
    ),
    BuiltInTag(
        BROKER_VERSION_INT,
        "0x00010000",
        "For comparisons: the numbers of broker.version, one byte each, at most four, as 0x and eight hexadecimal "
        "digits.",
    ),
    BuiltInTag(
        COMPRESSION_CODECS,
        "1=gzip,2=snappy,3=lz4,4=zstd",
        "Codecs of record batches that the broker accepts, separated by commas, in the order of their numbers: the "
        "number in the batch's attributes, =, the name.",
    ),
    BuiltInTag(
        MESSAGE_MAX_BYTES,
        "1048588",
        "The broker's current value of this configuration key, in decimal digits; a topic may have another value.",
    ),
    BuiltInTag(
        MESSAGE_FORMATS, "v2", "Record formats that the broker accepts (KIP-31 has their numbers), separated by commas."
    ),
    BuiltInTag(
        ENDPOINTS,
        "plaintext://host:9092,ssl://host:9192",
        "All listeners for clients, separated by commas: the security protocol in lower case, ://, the host (an IPv6 "
        "address in brackets), a colon, the port. A protocol may occur more than once.",
    ),
)
_BUILT_IN = frozenset(tag.name for tag in BUILT_IN_TAGS)


@remembered(1_000)
def tag_key(name: str) -> ConfigKey | None:
    """Return the key of a broker's tag by its name; None for an invalid name."""
    tag = name.removeprefix(TAG_PREFIX)
    if tag == name or not _NAME.fullmatch(tag):
        return None

    def problem(value: Value) -> str | None:
        if tag in _BUILT_IN:
            return f"cannot be set: each broker reports its own {tag}"
        return None if len(str(value).encode()) <= VALUE_BYTES_MAX else f"must have {VALUE_BYTES_MAX} bytes at most"

    doc = f"BrokerMetadata returns it as {tag}."
    return Key(name, Type.STRING, None, doc, problem, UpdateMode.CLUSTER_WIDE)


def tags_in(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of one level of configuration, by their names without the prefix."""
    return {name.removeprefix(TAG_PREFIX): trim(text) for name, text in texts.items() if tag_key(name) is not None}


def tags_problem(texts: Mapping[str, str]) -> str | None:
    """Return the fault of all tags of a level together; None for valid tags."""
    count = len(tags_in(texts))
    return f"{count} keys begin with {TAG_PREFIX}; at most {TAGS_MAX} are allowed" if count > TAGS_MAX else None
