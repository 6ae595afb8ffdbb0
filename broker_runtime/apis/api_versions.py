"""ApiVersions (18), versions 0 to 4 (KIP-35, KIP-511): what this listener serves.

A version that we do not know is answered with UNSUPPORTED_VERSION in a version 0 body that names our own range of
ApiVersions, which is what every client can read. The answers are built once per listener kind and version.
Not implemented: features (none are finalized), version 5's cluster check.
"""

import re
from collections.abc import Iterable
from struct import Struct
from typing import Any, TypeVar

from broker_runtime.apis.call import Call, ClientSoftware
from broker_runtime.apis.context import ApiSpec
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import API_VERSIONS, OWN_KEYS_FROM, PRODUCE
from broker_runtime.wire.writer import array_length

VERSIONS = (0, 4)
_RANGE = Struct(">hhh")
_ERROR = Struct(">h")
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_LENGTH_MAX = 1024

C = TypeVar("C")


class ApiVersionsAnswers:
    """The encoded answers of one kind of listener."""

    def __init__(self, served: Iterable[ApiSpec[Any]]) -> None:
        ranges = sorted([(API_VERSIONS, *VERSIONS), *((api.key, *advertised_versions(api)) for api in served)])
        self._bodies = {
            version: {code: _body(ranges, version, code) for code in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)}
            for version in range(VERSIONS[0], VERSIONS[1] + 1)
        }
        own = [(API_VERSIONS, *VERSIONS)]
        self._unsupported = _body(own, 0, ErrorCode.UNSUPPORTED_VERSION)

    def handle(self, reader: RequestReader, call: Call, context: object) -> Reply:
        """Versions from 3 on tell the client's software, which is kept with the connection."""
        by_code = self._bodies.get(call.version)
        code = ErrorCode.NONE
        if by_code is None:
            code, body = ErrorCode.UNSUPPORTED_VERSION, self._unsupported
        else:
            if call.version >= 3:
                software = ClientSoftware(reader.string(), reader.string())
                if _is_named(software):
                    call.connection.state = software
                else:
                    code = ErrorCode.INVALID_REQUEST
            body = by_code[code]
        call.error = code
        return (response_prefix(API_VERSIONS, call.version, call.correlation_id, len(body)) + body,)


def with_api_versions(*served: ApiSpec[C]) -> tuple[ApiSpec[C], ...]:
    """What one kind of listener serves, and the API that tells of what is Kafka's in it."""
    answers = ApiVersionsAnswers(api for api in served if api.key < OWN_KEYS_FROM)
    own: ApiSpec[C] = ApiSpec(
        API_VERSIONS, "ApiVersions", VERSIONS, answers.handle, reads="frame", any_version=True, on_standby=True
    )
    return (*served, own)


def advertised_versions(api: ApiSpec[Any]) -> tuple[int, int]:
    """Produce is advertised from 0, as Kafka does, because librdkafka before 2.11.1 looks for it."""
    low, high = api.versions
    return (0, high) if api.key == PRODUCE else (low, high)


def _body(ranges: list[tuple[int, int, int]], version: int, code: ErrorCode) -> bytes:
    flexible = version >= 3
    end = b"\x00" if flexible else b""
    listed = b"" if code == ErrorCode.INVALID_REQUEST else b"".join(_RANGE.pack(*item) + end for item in ranges)
    count = 0 if code == ErrorCode.INVALID_REQUEST else len(ranges)
    throttle = b"\x00\x00\x00\x00" if version >= 1 else b""
    return _ERROR.pack(code) + array_length(count, flexible) + listed + throttle + end


def _is_named(software: ClientSoftware) -> bool:
    return all(len(name) <= _SOFTWARE_LENGTH_MAX and _SOFTWARE.fullmatch(name) for name in software)
