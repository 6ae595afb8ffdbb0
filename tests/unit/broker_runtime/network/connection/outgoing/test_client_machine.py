"""One outgoing connection without its socket: every split of the bytes gives the same answers, in order."""

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.outgoing.client_machine import ClientMachine
from broker_runtime.network.settings import ClientLimits
from broker_runtime.wire.header import prefix
from broker_runtime.wire.versions import BROKER_HEARTBEAT, FETCH

LIMITS = ClientLimits(response_bytes_max=1_000_000, in_flight_max=3, connect_timeout_s=1.0)


def response(number: int, body: bytes, *, flexible: bool = True) -> bytes:
    return prefix(number, len(body), flexible) + body


def machine(requests: int = 2) -> ClientMachine:
    made = ClientMachine(LIMITS)
    for number in range(1, requests + 1):
        assert made.request(FETCH, 12, b"ask", float(number)) == number
    return made


def fed(at: ClientMachine, data: bytes, step: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while data:
        space = at.space()
        assert space, "there is always place for what comes"
        count = min(len(space), step, len(data))
        space[:count] = data[:count]
        data = data[count:]
        found += [(number, bytes(body)) for number, body in at.received(count)]
    return found


def test_requests_go_out_whole_with_a_correlation_id_each() -> None:
    first, second = machine().outgoing
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert int.from_bytes(first[:4], "big") == len(first) - 4
    assert (first[8:12], second[8:12]) == (b"\0\0\0\1", b"\0\0\0\2")
    assert first.endswith(b"ask")


@pytest.mark.parametrize("step", [1, 3, 4_095, 4_096, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 4_086, 4_087, 4_088, 100_000])
def test_answers_come_out_whatever_the_bytes_are_cut_into(size: int, step: int) -> None:
    bodies = [bytes([number]) * length for number, length in ((1, 10), (2, size), (3, 5))]
    data = b"".join(response(number, body) for number, body in enumerate(bodies, 1))
    assert fed(machine(3), data, step) == list(enumerate(bodies, 1))


def test_an_answer_is_unchanged_when_the_next_one_arrives() -> None:
    at = machine()
    space = at.space()
    first = response(1, b"first")
    space[: len(first)] = first
    [(_, body)] = at.received(len(first))
    fed(at, response(2, b"other"), 100)
    assert bytes(body) == b"first"


def test_an_older_version_has_no_tagged_fields_in_its_header() -> None:
    at = ClientMachine(LIMITS)
    at.request(FETCH, 11, b"", 0.0)
    assert fed(at, response(1, b"old", flexible=False), 100) == [(1, b"old")]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (response(2, b""), "wrong-correlation"),
        ((1_000_001).to_bytes(4, "big"), "frame-too-large"),
        ((-1).to_bytes(4, "big", signed=True), "frame-too-large"),
        ((3).to_bytes(4, "big"), "frame-too-large"),
        ((4).to_bytes(4, "big") + (1).to_bytes(4, "big"), "wrong-correlation"),
        (response(1, b"") + response(2, b"") + response(3, b""), "unasked-answer"),
    ],
)
def test_an_invalid_answer_ends_the_connection(data: bytes, kind: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        fed(machine(), data, 1 << 20)
    assert refused.value.kind == kind


def test_how_many_wait_and_how_long_is_told() -> None:
    at = machine(3)
    assert at.full
    assert at.waited_s(5.0) == 4.0
    fed(at, response(1, b"") + response(2, b""), 100)
    assert not at.full
    assert at.waited_s(5.0) == 2.0
    fed(at, response(3, b""), 100)
    assert at.waited_s(5.0) == 0.0
    assert at.request(BROKER_HEARTBEAT, 1, b"", 6.0) == 4
