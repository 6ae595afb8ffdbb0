"""PROXY protocol version 2, byte by byte, complete and broken."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.network.sockets.proxy_header import (
    SIGNATURE,
    HeaderOutcome,
    PassedOn,
    ProxyHeader,
    ProxyHeaderError,
)
from tests.support.requests.proxy_headers import header, local_header, tlv

LIMIT = 4_096
PORTS = st.integers(0, 65_535)
HOSTS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


def read(stream: bytes, pieces: tuple[int, ...] = (), limit: int = LIMIT) -> tuple[PassedOn | None, bytes]:
    """The parsed header, and the unread rest of `stream`; it arrives in `pieces` of bytes, the last size repeated."""
    parser, sizes = ProxyHeader(limit), iter(pieces)
    size = LIMIT * 32
    found: PassedOn | None = None
    while found is None and stream:
        size = next(sizes, size)
        taken = stream[: min(size, parser.missing)]
        stream = stream[len(taken) :]
        found = parser.receive(taken)
    return found, stream


@given(HOSTS, PORTS, st.binary(max_size=200), st.binary(max_size=50), st.lists(st.integers(1, 20), min_size=1))
def test_the_client_is_known_however_the_bytes_come_and_nothing_beyond_is_read(
    host: str, port: int, more: bytes, request: bytes, pieces: list[int]
) -> None:
    found, left = read(header((host, port), more=more) + request, tuple(pieces))
    assert found is not None
    assert found.client == (canonical_address(host), port)
    assert left == request


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_refused_or_the_beginning_of_one(data: bytes) -> None:
    try:
        found, _ = read(data)
    except ProxyHeaderError:
        return
    assert found is None or data.startswith(SIGNATURE)


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_signature_are_a_header_or_refused(data: bytes) -> None:
    try:
        found, _ = read(SIGNATURE + data, limit=200)
    except ProxyHeaderError:
        return
    if found is not None and found.client is not None:
        assert canonical_address(found.client[0]) == found.client[0]


def test_an_address_of_ipv4_in_ipv6_is_the_one_of_ipv4() -> None:
    found, _ = read(header((str(IPv6Address("::ffff:203.0.113.7")), 1)))
    assert found == PassedOn(("203.0.113.7", 1))


@pytest.mark.parametrize(
    "stream",
    [
        local_header(),
        header(command=0x20),
        header(family=0x00),
        SIGNATURE + b"\x21\x00\x00\x00",
        SIGNATURE + b"\x20\x31\x00\x05other",
    ],
    ids=["local", "local with addresses", "family not known", "nothing is known", "local of a Unix socket"],
)
def test_a_connection_without_an_address_is_the_proxys_own(stream: bytes) -> None:
    assert read(stream) == (PassedOn(None), b"")


@pytest.mark.parametrize(
    ("stream", "outcome"),
    [
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 5 6\r\n", HeaderOutcome.VERSION_1),
        (b"P", HeaderOutcome.VERSION_1),
        (b"\x00\x00\x00\x04ping", HeaderOutcome.NO_HEADER),
        (b"\r\n\r\nGET /", HeaderOutcome.NO_HEADER),
        (SIGNATURE + b"\x11\x11\x00\x0c", HeaderOutcome.MALFORMED),
        (SIGNATURE + b"\x22\x11\x00\x0c", HeaderOutcome.MALFORMED),
        (header(family=0x12), HeaderOutcome.MALFORMED),
        (header(family=0x31), HeaderOutcome.MALFORMED),
        (SIGNATURE + b"\x21\x11\x00\x0b", HeaderOutcome.MALFORMED),
        (SIGNATURE + b"\x21\x21\x00\x23", HeaderOutcome.MALFORMED),
        (header(more=tlv(0x20, bytes(LIMIT))), HeaderOutcome.TOO_LONG),
    ],
    ids=[
        "version 1",
        "its first byte",
        "a request",
        "no signature",
        "version",
        "command",
        "UDP",
        "Unix socket",
        "IPv4 too short",
        "IPv6 too short",
        "too long",
    ],
)
def test_an_invalid_header_is_rejected_with_its_reason(stream: bytes, outcome: HeaderOutcome) -> None:
    with pytest.raises(ProxyHeaderError) as caught:
        read(stream)
    assert caught.value.outcome is outcome


def test_a_header_of_the_greatest_length_is_read() -> None:
    whole = header(more=tlv(0x04, bytes(100)))
    assert read(whole, limit=len(whole))[0] is not None
    with pytest.raises(ProxyHeaderError):
        read(whole, limit=len(whole) - 1)
