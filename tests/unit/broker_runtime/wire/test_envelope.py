"""Envelopes (KIP-590): the bytes equal those of kio, and bad ones are refused."""

import dataclasses

import pytest

from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.security.principal import ANONYMOUS, Principal
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.envelope import (
    VERSION,
    Envelope,
    client_frame,
    pack_envelope,
    pack_enveloped,
    read_envelope,
    read_enveloped,
)
from broker_runtime.wire.header import read_header, response_prefix
from broker_runtime.wire.messages import decode_request, decode_response
from broker_runtime.wire.reply import joined, parts_of
from broker_runtime.wire.versions import CREATE_TOPICS, DELETE_TOPICS, ENVELOPE

FRAME = client_frame(CREATE_TOPICS, 7, "app", memoryview(b"body"))
SENT = Envelope(memoryview(FRAME), Principal("User", "älice"), "10.0.0.9")


def reader(body: bytes) -> RequestReader:
    return RequestReader(memoryview(body), 0, flexible=True)


@pytest.mark.parametrize(
    "sent",
    [SENT, SENT._replace(address="fd00::1"), SENT._replace(principal=ANONYMOUS)],
    ids=["IPv4", "IPv6", "anonymous"],
)
def test_an_envelope_is_read_as_it_was_packed(sent: Envelope) -> None:
    body = pack_envelope(sent)
    assert read_envelope(reader(body)) == sent
    known = decode_request(ENVELOPE, VERSION, memoryview(body))
    assert known.request_data == sent.frame


def test_a_connection_without_an_address_has_the_unspecified_one() -> None:
    assert read_envelope(reader(pack_envelope(SENT._replace(address="client-1")))).address == "0.0.0.0"


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("client_id", ["app", "", None])
def test_the_frame_has_the_clients_own_header(version: int, client_id: str | None) -> None:
    frame = memoryview(client_frame(DELETE_TOPICS, version, client_id, memoryview(b"body")))
    key, found, _, name, at = read_header(frame)
    assert (key, found, name) == (DELETE_TOPICS, version, client_id)
    assert bytes(frame[at:]) == (b"\x00body" if version >= 4 else b"body")


def test_an_answer_is_read_as_it_was_packed() -> None:
    answer = response_prefix(CREATE_TOPICS, 7, 0, 4)[4:] + b"body"
    packed = parts_of(pack_enveloped((memoryview(answer),), 0))
    assert decode_response(ENVELOPE, VERSION, joined(packed)).response_data == answer
    body, code = read_enveloped(packed, CREATE_TOPICS, 7)
    assert body is not None
    assert (bytes(joined(body)), code) == (b"body", ErrorCode.NONE)
    assert read_enveloped(parts_of(pack_enveloped(None, 42)), CREATE_TOPICS, 7) == (None, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100_000])
def test_an_answer_in_parts_is_read_whatever_its_parts(size: int) -> None:
    content = bytes(range(250)) * 300
    answer = memoryview(response_prefix(CREATE_TOPICS, 7, 0, len(content))[4:] + content)
    packed = memoryview(b"".join(pack_enveloped((answer,), 0)))
    body, code = read_enveloped(tuple(packed[at : at + size] for at in range(0, len(packed), size)), CREATE_TOPICS, 7)
    assert body is not None
    assert (b"".join(body), code) == (content, ErrorCode.NONE)
    with pytest.raises(ProtocolError):
        read_enveloped((packed[:-4],), CREATE_TOPICS, 7)
    with pytest.raises(ProtocolError):
        read_enveloped((), CREATE_TOPICS, 7)


def test_a_long_answer_is_not_copied() -> None:
    """Each copy of an answer of 64 MB would block the event loop for 20 ms."""
    answer = tuple(memoryview(bytes(100_000)) for _ in range(3))
    packed = pack_enveloped(answer, 0)
    assert [each.obj for each in parts_of(packed)[1:-1]] == [each.obj for each in answer]
    body, _ = read_enveloped(parts_of(packed), CREATE_TOPICS, 7)
    assert body is not None
    assert [each.obj for each in body] == [each.obj for each in answer]


@pytest.mark.parametrize("cut", range(1, 50, 7))
def test_an_envelope_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        read_envelope(reader(pack_envelope(SENT)[:-cut]))


def test_an_envelope_without_a_part_is_refused() -> None:
    with pytest.raises(ProtocolError, match="needs a request, a principal and a client address"):
        read_envelope(reader(bytes(4)))
    with pytest.raises(ProtocolError, match="neither 4 nor 16 bytes"):
        read_envelope(reader(pack_envelope(SENT)[:-6] + b"\x03ab\x00"))
    identity = pack_envelope(SENT).replace(b"\x00\x00\x05User", b"\x00\x07\x05User")
    with pytest.raises(ProtocolError, match="version 7 of a principal"):
        read_envelope(reader(identity))


def test_kio_knows_no_other_field() -> None:
    known = decode_request(ENVELOPE, VERSION, memoryview(pack_envelope(SENT)))
    assert {field.name for field in dataclasses.fields(known)} == {
        "request_data",
        "request_principal",
        "client_host_address",
    }
