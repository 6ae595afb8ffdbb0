"""ApiVersions (18), versions 0 to 4 (KIP-35, KIP-511): the APIs and versions that this listener serves.

The answer to an unknown version is UNSUPPORTED_VERSION in a version 0 body that contains the supported range of
ApiVersions: every client can read this body. The answers are built once per listener kind and version, except for the
metadata's offset, which versions from 3 on send as the epoch of the features (KIP-584). Version 3 omits features whose
lowest level is 0, as in Kafka, because old clients cannot read them. Not implemented: version 5's cluster check.
"""

import re
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, TypeVar

from broker_runtime.apis.request.call import Call, ClientSoftware
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, string
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.protocol_versions import FEATURES
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import (
    API_VERSIONS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    OWN_KEYS_FROM,
    PRODUCE,
    PUSH_TELEMETRY,
)
from kafka_bytes.varints import write_uvarint

VERSIONS = (0, 4)
_RANGE = Struct(">hhh")
_ERROR = Struct(">h")
_THROTTLE = Struct(">i")
_THROTTLE_SINCE = 1
_LEVELS = Struct(">hhx")
"""Two levels of a feature, and no tagged fields."""
_EPOCH = Struct(">q")
_SUPPORTED_TAG, _EPOCH_TAG, _FINALIZED_TAG = 0, 1, 2
_FLEXIBLE_SINCE = 3
_LEVEL_ZERO_SINCE = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_LENGTH_MAX = 1024
_NOT_LISTED = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
"""APIs that Kafka lists only if it has a receiver for the metrics of clients."""

C = TypeVar("C")


class ApiVersionsAnswers:
    """The encoded ApiVersions answers of one kind of listener."""

    def __init__(self, served: Iterable[ApiSpec[Any]]) -> None:
        ranges = sorted([(API_VERSIONS, *VERSIONS), *((api.key, *advertised_versions(api)) for api in served)])
        self._bodies = {
            version: {code: _body(ranges, version, code) for code in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)}
            for version in range(VERSIONS[0], VERSIONS[1] + 1)
        }
        own = [(API_VERSIONS, *VERSIONS)]
        self._unsupported = _body(own, 0, ErrorCode.UNSUPPORTED_VERSION)

    def handle(self, reader: RequestReader, call: Call, context: Any) -> Reply:
        """Answer an ApiVersions request. From version 3 on, store the client's software with the connection.

        `context` is a NodeContext.
        """
        by_code = self._bodies.get(call.version)
        code = ErrorCode.NONE
        if by_code is None:
            code, body = ErrorCode.UNSUPPORTED_VERSION, self._unsupported
        else:
            if call.version >= _FLEXIBLE_SINCE:
                software = ClientSoftware(reader.string(), reader.string())
                if _is_named(software):
                    call.connection.state = software
                else:
                    code = ErrorCode.INVALID_REQUEST
            body = _throttled(by_code[code], call, code) if call.throttle_ms else by_code[code]
            if call.version >= _FLEXIBLE_SINCE and code == ErrorCode.NONE:
                body += _features(call.version, context.image.offset)
        call.error = code
        return (response_prefix(API_VERSIONS, call.version, call.correlation_id, len(body)) + body,)


def with_api_versions(*served: ApiSpec[C]) -> tuple[ApiSpec[C], ...]:
    """Return the APIs of one kind of listener, plus the ApiVersions API that lists those defined by Kafka."""
    answers = ApiVersionsAnswers(api for api in served if api.key < OWN_KEYS_FROM and api.key not in _NOT_LISTED)
    own: ApiSpec[C] = ApiSpec(
        API_VERSIONS, "ApiVersions", VERSIONS, answers.handle, reads="frame", any_version=True, on_standby=True
    )
    return (*served, own)


def advertised_versions(api: ApiSpec[Any]) -> tuple[int, int]:
    """Return the advertised versions of an API.

    Produce begins at 0 as in Kafka, because librdkafka before 2.11.1 needs it.
    """
    low, high = api.versions
    return (0, high) if api.key == PRODUCE else (low, high)


def _body(ranges: list[tuple[int, int, int]], version: int, code: ErrorCode) -> bytes:
    """Return the body of an answer, without the tagged fields if it has features."""
    flexible = version >= _FLEXIBLE_SINCE
    end = b"\x00" if flexible else b""
    listed = b"" if code == ErrorCode.INVALID_REQUEST else b"".join(_RANGE.pack(*item) + end for item in ranges)
    count = 0 if code == ErrorCode.INVALID_REQUEST else len(ranges)
    throttle = _THROTTLE.pack(0) if version >= _THROTTLE_SINCE else b""
    has_features = flexible and code == ErrorCode.NONE
    return _ERROR.pack(code) + array_length(count, flexible) + listed + throttle + (b"" if has_features else end)


def _throttled(body: bytes, call: Call, code: ErrorCode) -> bytes:
    """Return a body with the throttle time, which is at its end except for the tagged fields."""
    if call.version < _THROTTLE_SINCE:
        return body
    end = len(body) - (call.version >= _FLEXIBLE_SINCE and code != ErrorCode.NONE)
    return body[: end - _THROTTLE.size] + _THROTTLE.pack(call.throttle_ms) + body[end:]


def _features(version: int, epoch: int) -> bytes:
    """Return the tagged fields of an answer, which list the features."""
    before, after = _FEATURES[version]
    return before + _EPOCH.pack(epoch) + after


def _around_epoch(version: int) -> tuple[bytes, bytes]:
    shown = {name: levels for name, levels in FEATURES.items() if levels.lowest or version >= _LEVEL_ZERO_SINCE}
    supported = _listed({name: (levels.lowest, levels.highest) for name, levels in shown.items()})
    finalized = _listed({name: (levels.highest, levels.highest) for name, levels in FEATURES.items()})
    before = b"\x03" + _tagged(_SUPPORTED_TAG, supported) + write_uvarint(_EPOCH_TAG) + write_uvarint(_EPOCH.size)
    return before, _tagged(_FINALIZED_TAG, finalized)


def _listed(features: Mapping[str, tuple[int, int]]) -> bytes:
    items = b"".join(string(name, True) + _LEVELS.pack(*levels) for name, levels in features.items())
    return array_length(len(features), True) + items


def _tagged(tag: int, content: bytes) -> bytes:
    return write_uvarint(tag) + write_uvarint(len(content)) + content


_FEATURES = {version: _around_epoch(version) for version in range(_FLEXIBLE_SINCE, VERSIONS[1] + 1)}


def _is_named(software: ClientSoftware) -> bool:
    return all(len(name) <= _SOFTWARE_LENGTH_MAX and _SOFTWARE.fullmatch(name) for name in software)
