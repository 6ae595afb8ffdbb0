"""Malicious use of the push protocol, against a real broker: it gets an error code or the end of that connection.

One consumer follows the protocol all the time: its connection is neither closed nor stopped.
"""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka import Producer

from broker_runtime.errors import ErrorCode
from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.layouts import Layout
from kafka_bytes.push.messages import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

SESSION_MS = 600
DEADLINE_S = 20.0
GROUP_MAX = 40
WIDE = 200
"""Number of partitions of a topic that do not fit into a StartFetcher of the allowed length."""
PUSH_BYTES_MAX = 4_000
COME_AND_GO = 1_000
GROWTH_BYTES_MAX = 24 * 1024 * 1024
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)
PROPERTIES = {
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": str(GROUP_MAX),
    "offsets.topic.num.partitions": "1",
    "sluicegate.connection.push.max.bytes": str(PUSH_BYTES_MAX),
}


class Line:
    """A connection, and a consumer on it that obeys the calls which the test passes to it."""

    def __init__(self, broker: BrokerProcess, group: str = "victims", name: str = "c") -> None:
        self.group, self.name = group, name
        self.reading: set[str] = set()
        self.calls = 0
        self._client = WireClient(("127.0.0.1", broker.port()))

    def send(self, layout: Layout[Any], message: Any) -> None:
        self._client.send(layout.write(message))

    def send_bytes(self, content: bytes) -> None:
        self._client.send(content)

    def read(self, layout: Layout[Any]) -> Any:
        frame = self._client.receive(DEADLINE_S)
        assert frame is not None, "the broker has hung up"
        return layout.read(memoryview(frame))

    def register(self, **changes: Any) -> ErrorCode:
        asked = RegisterConsumerRequest(self.group, self.name, '{"orders": 1}', True, "smallest", SESSION_MS)
        self.send(layouts.REGISTER_CONSUMER_REQUEST, asked._replace(**changes))
        return ErrorCode(self.read(layouts.REGISTER_CONSUMER_RESPONSE).error_code)

    def registered(self, **changes: Any) -> "Line":
        deadline_s = time.monotonic() + DEADLINE_S
        while (code := self.register(**changes)) in NOT_YET:
            assert time.monotonic() < deadline_s, code.name
            self.is_served()
        assert code is ErrorCode.NONE
        return self

    def started(self) -> "Line":
        """Register, and answer the first StartFetcher."""
        self.registered()
        self.obey(self.receive())
        return self

    def receive(self, timeout_s: float = DEADLINE_S) -> bytes:
        frame = self._client.receive(timeout_s)
        assert frame is not None, "the broker has hung up"
        return frame

    def obey(self, frame: bytes) -> None:
        self.calls += 1
        (kind,) = struct.unpack_from(">h", frame)
        told = tuple(PartitionOffset("orders", part, 1) for part in sorted(self.reading))
        if kind == own_keys.PING:
            self.send(layouts.PING_RESPONSE, PingResponse(0, self.name, told))
        elif kind == own_keys.STOP_FETCHER:
            self.reading = set()
            self.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, self.name, told))
        else:
            start: StartFetcherRequest = layouts.START_FETCHER_REQUEST.read(memoryview(frame))
            self.reading = {part.partition for thread in start.ownership_info for part in thread.assigned_parts}
            self.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, self.name))

    def obey_what_came(self) -> None:
        with suppress(TimeoutError):
            while True:
                self.obey(self.receive(0.001))

    def is_served(self) -> bool:
        """Return whether the broker still answers on the connection."""
        self.send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(self.group))
        found: ClusterMetadataResponse = self.read(layouts.CLUSTER_METADATA_RESPONSE)
        return found.coordinator_id >= 0

    def is_hung_up_on(self) -> bool:
        """Return whether the broker closes the connection soon, whatever calls come before that."""
        try:
            while self._client.receive(DEADLINE_S) is not None:
                pass
        except (TimeoutError, ConnectionResetError) as error:
            return isinstance(error, ConnectionResetError)
        return True

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as process, WireClient(("127.0.0.1", process.port())) as client:
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in (("orders", 3), ("wide", WIDE))
        ]
        client.ask("create_topics", 7, topics=topics, timeout=10_000)
        producer = Producer({"bootstrap.servers": process.bootstrap})
        for number in range(3):
            producer.produce("orders", b"x", partition=number)
        assert producer.flush(DEADLINE_S) == 0
        yield process


@pytest.fixture(scope="module")
def witness(broker: BrokerProcess) -> Iterator[Line]:
    line = Line(broker, "witnesses", "witness").registered(session_timeout_ms=30_000)
    line.obey(line.receive())
    yield line
    line.close()


Open = Callable[..., Line]


@pytest.fixture
def line(broker: BrokerProcess, witness: Line) -> Iterator[Open]:
    with ExitStack() as stack:

        def opened(group: str = "victims", name: str = "c") -> Line:
            made = Line(broker, group, name)
            stack.callback(made.close)
            return made

        yield opened
    witness.obey_what_came()
    assert len(witness.reading) == 3, "nobody else is troubled"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        *(
            ({"session_timeout_ms": each}, ErrorCode.INVALID_SESSION_TIMEOUT)
            for each in (-(2**31), -1, 0, 99, 2**31 - 1)
        ),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"consumer_id": ""}, ErrorCode.INVALID_REQUEST),
        *(({"auto_offset_rest": each}, ErrorCode.INVALID_REQUEST) for each in ("", "middle", "Smallest")),
        *(
            ({"topic_count": each}, ErrorCode.INVALID_REQUEST)
            for each in (
                "",
                "{}",
                "null",
                "[]",
                '{"orders": 0}',
                '{"orders": 101}',
                '{"orders": "1"}',
                '{"orders": 1.5}',
                '{"orders": 1',
                '{"orders":' + "[" * 30_000,
                '{"orders": ' + "9" * 32_000 + "}",
                json.dumps({f"t{number}": 1 for number in range(1_001)}),
                "*0*.*",
                "*101*.*",
                "!1",
            )
        ),
        *(
            ({"topic_count": json.dumps({each: 1})}, ErrorCode.INVALID_TOPIC_EXCEPTION)
            for each in ("", ".", "a b", "x" * 250)
        ),
        *(
            ({"topic_count": "*1*" + each}, ErrorCode.INVALID_REGULAR_EXPRESSION)
            for each in ("(", "(?=a)", "x" * 4_097, "(a{1000}){1000}", "x{0,999}" * 500, "\\pL" * 17)
        ),
    ],
)
def test_a_registration_out_of_range_is_refused_and_the_connection_goes_on(
    line: Open, changes: dict[str, Any], code: ErrorCode
) -> None:
    one = line()
    assert one.register(**changes) is code
    assert one.is_served()


def frame(type_id: int, content: bytes) -> bytes:
    return struct.pack(">ih", 2 + len(content), type_id) + content


def text(value: bytes, length: int | None = None) -> bytes:
    return struct.pack(">h", len(value) if length is None else length) + value


REGISTERS = text(b"victims") + text(b"c") + text(b'{"orders": 1}')
ANSWERS = struct.pack(">h", 0) + text(b"c")


@pytest.mark.parametrize(
    "content",
    [
        frame(own_keys.CLUSTER_METADATA, text(b"g", -1)),
        frame(own_keys.CLUSTER_METADATA, text(b"g") + b"\0"),
        frame(own_keys.REGISTER_CONSUMER, b""),
        frame(own_keys.REGISTER_CONSUMER, REGISTERS),
        frame(own_keys.REGISTER_CONSUMER, REGISTERS + b"\1" + text(b"smallest") + struct.pack(">iq", SESSION_MS, 0)),
        frame(own_keys.REGISTER_CONSUMER, text(b"\xff\xfe") + REGISTERS),
        frame(own_keys.REGISTER_CONSUMER, text(b"victims", 0x7FFF)),
        frame(own_keys.PING, ANSWERS),
        frame(own_keys.STOP_FETCHER, ANSWERS + struct.pack(">h", 0)),
        frame(own_keys.START_FETCHER, ANSWERS),
        frame(30_000, b""),
        frame(30_006, b""),
        struct.pack(">ih", 1, 30_001)[:5],
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
    ],
    ids=range(15),
)
def test_an_invalid_message_ends_its_connection(line: Open, content: bytes) -> None:
    one = line()
    one.send_bytes(content)
    assert one.is_hung_up_on()


def test_half_a_frame_keeps_nobody_waiting(broker: BrokerProcess, line: Open) -> None:
    whole = frame(own_keys.REGISTER_CONSUMER, REGISTERS + b"\1" + text(b"smallest") + struct.pack(">i", SESSION_MS))
    for length in range(1, len(whole), 5):
        half = line()
        half.send_bytes(whole[:length])
        half.close()
    assert line().is_served()


OFFSETS = (PartitionOffset("orders", "0", 1),)


@pytest.mark.parametrize(
    ("layout", "answer"),
    [
        (layouts.PING_RESPONSE, PingResponse(0, "c", OFFSETS)),
        (layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", OFFSETS)),
        (layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c")),
        (layouts.PING_RESPONSE, PingResponse(0, "witness", OFFSETS)),
        (layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "witness", ())),
        (
            layouts.PING_RESPONSE,
            PingResponse(0, "c", tuple(PartitionOffset("orders", str(n), n) for n in range(0x7FFF))),
        ),
        (layouts.PING_RESPONSE, PingResponse(0, "c", (PartitionOffset("orders", "one", 1),))),
    ],
    ids=["ping", "stop", "start", "another's ping", "another's stop", "too many offsets", "no partition"],
)
def test_an_unrequested_answer_ends_registration_and_connection(line: Open, layout: Layout[Any], answer: Any) -> None:
    one = line().started()
    one.send(layout, answer)
    assert one.is_hung_up_on()
    assert len(line().started().reading) == 3, "its id is free again, and all that it had"


@pytest.mark.parametrize(
    "told",
    [
        PingResponse(7, "c", ()),
        PingResponse(-1, "c", ()),
        PingResponse(0, "c", None),
        PingResponse(0, "witness", ()),
        StopFetcherResponse(0, "c", ()),
        StartFetcherResponse(0, "c"),
    ],
    ids=["error", "unknown error", "no offsets", "another's name", "stop instead", "start instead"],
)
def test_a_wrong_answer_to_a_ping_ends_registration_and_connection(line: Open, told: Any) -> None:
    one = line().started()
    while struct.unpack_from(">h", one.receive())[0] != own_keys.PING:
        pass
    layout: Any = {
        PingResponse: layouts.PING_RESPONSE,
        StopFetcherResponse: layouts.STOP_FETCHER_RESPONSE,
        StartFetcherResponse: layouts.START_FETCHER_RESPONSE,
    }[type(told)]
    one.send(layout, told)
    assert one.is_hung_up_on()


@pytest.mark.parametrize("offset", [-(2**63), -3, -1, 2**63 - 1])
def test_offsets_out_of_range_harm_their_own_group_at_most(line: Open, offset: int) -> None:
    group = f"offset {offset}"
    one = line(group).started()
    while struct.unpack_from(">h", one.receive())[0] != own_keys.PING:
        pass
    told = (PartitionOffset("orders", "0", offset), PartitionOffset("none", "2147483647", 5))
    one.send(layouts.PING_RESPONSE, PingResponse(0, "c", told))
    one.close()
    assert len(line(group).started().reading) == 3


def test_one_connection_has_one_consumer(line: Open) -> None:
    one = line("pairs").registered(session_timeout_ms=30_000)
    one.obey(one.receive())
    assert one.register(consumer_id="d") is ErrorCode.INVALID_REQUEST
    assert line("pairs").register() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert one.is_served()


def test_a_flood_of_registrations_ends_at_the_size_of_a_group(line: Open) -> None:
    codes = [line("flood", f"c{number}").register(session_timeout_ms=30_000) for number in range(GROUP_MAX + 20)]
    assert codes == [ErrorCode.NONE] * GROUP_MAX + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 20


def test_a_consumer_that_reads_nothing_is_disconnected(line: Open) -> None:
    """The broker sends it only a few calls: pings until it has failed."""
    deaf = line("deaf").registered()
    began_s = time.monotonic()
    heard = line("deaf", "hears").registered(session_timeout_ms=30_000)
    while len(heard.reading) < 3:
        assert time.monotonic() < began_s + DEADLINE_S
        heard.obey(heard.receive())
    assert deaf.is_hung_up_on()


def test_a_start_that_is_too_long_ends_its_connection_only(line: Open) -> None:
    wide = line("wide").registered(topic_count='{"wide": 1}')
    assert wide.is_hung_up_on()


def test_thousands_that_register_and_leave_cost_nothing_that_stays(broker: BrokerProcess, line: Open) -> None:
    address = ("127.0.0.1", broker.port())
    asked = RegisterConsumerRequest("passers-by", "", '{"orders": 1}', True, "smallest", SESSION_MS)
    resident_bytes = broker.resident_bytes()
    for number in range(COME_AND_GO):
        with socket.create_connection(address, DEADLINE_S) as passing:
            passing.sendall(layouts.REGISTER_CONSUMER_REQUEST.write(asked._replace(consumer_id=f"c{number}")))
            if number % 2:
                passing.recv(6)
    last = line("passers-by", "last").registered()
    began_s = time.monotonic()
    while len(last.reading) < 3:
        assert time.monotonic() < began_s + DEADLINE_S
        last.obey(last.receive())
    assert broker.resident_bytes() - resident_bytes < GROWTH_BYTES_MAX
    assert broker.is_running
