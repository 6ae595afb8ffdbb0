"""What arrives before or beside Kafka's requests: PROXY headers, requests of HTTP, envelopes, frames of brokers."""

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.http_listener import parse_request, wanted_wait_s
from broker_runtime.network.connection.outgoing.client_machine import ClientMachine
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.proxy_header import ProxyHeader, ProxyHeaderError, is_bare_header
from broker_runtime.replication.following.fetch_messages import read_answer
from broker_runtime.security.principal import Principal
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.envelope import (
    Envelope,
    client_frame,
    pack_envelope,
    pack_enveloped,
    read_envelope,
    read_enveloped,
)
from broker_runtime.wire.versions import FETCH, METADATA
from tests.fuzz.target import Cut, Target
from tests.support.requests.proxy_headers import header as proxy_header
from tests.support.requests.proxy_headers import local_header, tlv

_HEADER_BYTES_MAX = 536
_ANSWER_BYTES_MAX = 8_192
_ANSWERS_WANTED = 3


def _proxy_header(data: bytes) -> None:
    header, at = ProxyHeader(_HEADER_BYTES_MAX), 0
    whole = None
    try:
        while whole is None and len(data) - at >= header.missing:
            part = data[at : at + header.missing]
            assert part, "a header that is not complete needs bytes"
            whole = header.receive(part)
            at += len(part)
            assert at <= _HEADER_BYTES_MAX
    except ProxyHeaderError:
        assert not is_bare_header(data, _HEADER_BYTES_MAX)
        return
    if whole is not None:
        assert is_bare_header(data[:at], _HEADER_BYTES_MAX)
        if whole.client is not None:
            ip_address(whole.client[0])


def _proxy_headers() -> Iterable[bytes]:
    yield from (proxy_header(), proxy_header(("2001:db8::1", 4), more=tlv(4, b"x")), local_header())


def _http_request(data: bytes) -> None:
    request = parse_request(data, "10.0.0.1", "10.0.0.2")
    wait_s = wanted_wait_s(request)
    assert wait_s is None or 0 <= wait_s < float("inf")


def _envelope(data: bytes) -> None:
    with suppress(ProtocolError):
        envelope = read_envelope(RequestReader(memoryview(data), 0, True))
        again = read_envelope(RequestReader(memoryview(pack_envelope(envelope)), 0, True))
        assert again == envelope


def _envelopes() -> Iterable[bytes]:
    for address in ("127.0.0.1", "2001:db8::1"):
        frame = client_frame(METADATA, 9, "client", memoryview(b"\x01\x00\x00\x00"))
        yield pack_envelope(Envelope(memoryview(frame), Principal("User", "alice"), address))


def _enveloped_answer(data: bytes) -> None:
    cut = Cut(data)
    version = cut.number(13)
    with suppress(ProtocolError):
        read_enveloped((memoryview(cut.rest()),), METADATA, version)


def _answers_of_controllers() -> Iterable[bytes]:
    yield b"".join((b"\x09", *pack_enveloped((memoryview(bytes(9)),), ErrorCode.NONE)))
    yield b"".join((b"\x00", *pack_enveloped(None, ErrorCode.NOT_CONTROLLER)))


def _link(data: bytes) -> None:
    """Bytes of another node, which come in parts of any length."""
    machine = ClientMachine(ClientLimits(_ANSWER_BYTES_MAX, _ANSWERS_WANTED, 1.0))
    for _ in range(_ANSWERS_WANTED):
        machine.request(METADATA, 9, b"", 0.0)
    with suppress(ProtocolError):
        for part in Cut(data).parts():
            while part:
                space = machine.space()
                taken = min(len(space), len(part))
                assert taken
                space[:taken] = part[:taken]
                for _, body in machine.received(taken):
                    assert len(body) <= _ANSWER_BYTES_MAX
                part = part[taken:]


def _links() -> Iterable[bytes]:
    answer = (8).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\x00abc"
    yield bytes((len(answer),)) + answer
    yield b"\x03" + answer[:3] + bytes((len(answer) - 3,)) + answer[3:]


def _fetched(data: bytes) -> None:
    """The answer of a leader to its follower."""
    with suppress(ProtocolError, KafkaError):
        for part in read_answer(memoryview(data)).parts:
            assert part.records is None or len(part.records) <= len(data)


def _fetched_answers() -> Iterable[bytes]:
    part = bytes(4) + bytes(2) + bytes(24) + b"\x01" + bytes(4) + b"\x04abc" + b"\x00"
    yield bytes(10) + b"\x02" + bytes(15) + b"\x01" + b"\x02" + part + b"\x00" + b"\x00"
    yield client_frame(FETCH, 13, None, memoryview(b""))


TARGETS = (
    Target("proxy-header", _proxy_header, _proxy_headers, 1_024),
    Target("http-request", _http_request, lambda: (b"GET /brokers?wait=5&x=%41 HTTP/1.1\r\nHost: a\r\n\r\n",)),
    Target("envelope", _envelope, _envelopes),
    Target("enveloped-answer", _enveloped_answer, _answers_of_controllers),
    Target("node-link", _link, _links),
    Target("leader-answer", _fetched, _fetched_answers),
)
