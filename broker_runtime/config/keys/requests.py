"""The keys that limit the items of one request and the size of its response. Pure."""

import re

from broker_runtime.config.declaring.allowed import at_least
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import INT_MAX, Key, Type, Value
from broker_runtime.errors import ConfigError

_ITEMS_MAX_LEAST = 1_024
"""A request of at most so many bytes is read without counting its items."""
_OVERRIDE = re.compile(r"(?P<api>[A-Za-z]+):(?P<count>[0-9]{1,10})")
_FORM = "must be API:count pairs such as OffsetCommit:200000, separated by commas"


def items_overrides(value: Value) -> dict[str, int]:
    """Return the limits of items by the name of the API.

    Raises ConfigError, whose text describes the allowed values.
    """
    found: dict[str, int] = {}
    for item in value if isinstance(value, tuple) else ():
        match = _OVERRIDE.fullmatch(item)
        if match is None or not _ITEMS_MAX_LEAST <= int(match["count"]) <= INT_MAX:
            raise ConfigError(f"{_FORM}, with counts from {_ITEMS_MAX_LEAST} to {INT_MAX}; {item} is not")
        found[match["api"]] = int(match["count"])
    return found


def _overrides_problem(value: Value) -> str | None:
    try:
        items_overrides(value)
    except ConfigError as error:
        return str(error)
    return None


class RequestConfig(Config):
    """Configuration keys of the limits of one request. The page request-limits.md has the arrays of each API."""

    sluicegate_request_items_max: Key[int] = static(
        "sluicegate.request.items.max",
        Type.INT,
        50_000,
        "Items of all arrays of one request together, nested arrays included: partitions, topics, resources. A "
        "request with more is answered with INVALID_REQUEST if its API has a field for an error; otherwise its "
        "connection is closed.",
        at_least(_ITEMS_MAX_LEAST),
    )
    sluicegate_request_items_max_overrides: Key[tuple[str, ...]] = static(
        "sluicegate.request.items.max.overrides",
        Type.LIST,
        (
            "BrokerMetadata:10000",
            "BrokerRegistration:5000",
            "OffsetCommit:200000",
            "OffsetDelete:200000",
            "OffsetFetch:100000",
            "WriteTxnMarkers:10000",
        ),
        "API:count, comma separated; overrides sluicegate.request.items.max for these APIs.",
        _overrides_problem,
    )
    sluicegate_request_tagged_fields_max: Key[int] = static(
        "sluicegate.request.tagged.fields.max",
        Type.INT,
        100,
        "Tagged fields (KIP-482) of one struct of a request, or of its header, at most.",
        at_least(1),
    )
    sluicegate_request_tagged_bytes_max: Key[int] = static(
        "sluicegate.request.tagged.bytes.max",
        Type.INT,
        65_536,
        "Bytes of the tagged fields of one struct of a request, or of its header, at most.",
        at_least(1_024),
    )
    sluicegate_request_max_bytes: Key[int] = static(
        "sluicegate.request.max.bytes",
        Type.INT,
        4_194_304,
        "Largest request other than Produce and SyncGroup, to which socket.request.max.bytes and "
        "sluicegate.group.assignments.bytes.max apply.",
        at_least(_ITEMS_MAX_LEAST),
    )
    sluicegate_requests_long_max_bytes: Key[int] = static(
        "sluicegate.requests.long.max.bytes",
        Type.INT,
        4_194_304,
        "Bytes of long requests, other than Produce, that run at the same time; further ones wait. It holds for each "
        "of four sizes: up to 4, 16 and 64 KiB, and more. Their fields take up to thirty times as much memory. "
        "Requests of at most 1 KiB do not count.",
        at_least(1),
    )
    sluicegate_response_max_bytes: Key[int] = static(
        "sluicegate.response.max.bytes",
        Type.INT,
        67_108_864,
        "Largest response other than that of Fetch, to which fetch.max.bytes applies. A request whose response "
        "would be larger is refused like a request with too many names.",
        at_least(1_048_576),
    )
