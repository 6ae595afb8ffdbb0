"""ConsumerGroupHeartbeat's own reader and packer against kio's codec, and the heartbeats that are answered at once."""

from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_runtime.apis.groups import consumer_group_heartbeat
from broker_runtime.apis.groups.consumer_group_heartbeat import API, handle, read
from broker_runtime.apis.request.context import ZERO_UUID
from broker_runtime.errors import MESSAGE_MAX, ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.wire.encoding.decode import read_entity
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.header import prefix
from broker_runtime.wire.limits import DEFAULT_LIMITS, RequestTooLargeError
from broker_runtime.wire.messages import decode_response, encode_request_body
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions
from tests.support.requests.calls import a_call, reply_to
from tests.support.requests.random_messages import messages

PEER = "/127.0.0.1"
STEADY = {"group_id": "g", "member_id": "m", "member_epoch": 1, "rebalance_timeout": -1, "topic_partitions": None}


def of_entity(entity: Any, version: int) -> ConsumerHeartbeatRequest:
    """The request in kio's entity; its time spans are timedelta, and its id of no topic is None."""
    owned: dict[UUID, tuple[int, ...]] | None = None
    if entity.topic_partitions is not None:
        owned = {}
        for topic in entity.topic_partitions:
            topic_id = topic.topic_id or ZERO_UUID
            owned[topic_id] = (*owned.get(topic_id, ()), *topic.partitions)
    return ConsumerHeartbeatRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        member_epoch=entity.member_epoch,
        instance_id=entity.instance_id,
        rack_id=entity.rack_id,
        rebalance_timeout_ms=round(entity.rebalance_timeout.total_seconds() * 1000),
        subscribed_topic_names=entity.subscribed_topic_names,
        subscribed_topic_regex=entity.subscribed_topic_regex if version >= 1 else None,
        server_assignor=entity.server_assignor,
        owned=owned,
        client_id="test",
        client_host=PEER,
        api_version=version,
    )


def read_here(version: int, body: bytes) -> ConsumerHeartbeatRequest:
    return read(RequestReader(memoryview(body), 0, True), a_call(API, version))


def outcome(reading: Any, *asked: Any) -> ConsumerHeartbeatRequest | str:
    try:
        found: ConsumerHeartbeatRequest = reading(*asked)
    except ProtocolError as error:
        return error.kind
    return found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(message=messages(API.key, "Request"))
def test_the_reader_decodes_what_kio_encodes(message: tuple[Any, bytes]) -> None:
    kind, body = message
    expected = of_entity(read_entity(kind, body), kind.__version__)
    assert read_here(kind.__version__, body) == expected
    tags = b"\x02\x5a\x03new\x5b\x00"
    assert read_here(kind.__version__, body[:-1] + tags + b"behind the last field") == expected


@settings(max_examples=20, deadline=None, derandomize=True)
@given(message=messages(API.key, "Request"))
def test_what_is_cut_or_changed_is_read_or_refused_as_elsewhere(message: tuple[Any, bytes]) -> None:
    kind, body = message
    version = kind.__version__
    changed = [body[:end] for end in range(len(body))]
    for at in range(len(body)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x80} - {body[at]}:
            changed.append(body[:at] + bytes((byte,)) + body[at + 1 :])
    for each in changed:
        elsewhere = outcome(lambda frame: of_entity(read_entity(kind, frame), version), each)
        here = outcome(read_here, version, each)
        assert isinstance(here, str) == isinstance(elsewhere, str)
        if not isinstance(here, str):
            assert here == elsewhere


def test_what_is_larger_than_a_heartbeat_may_be_is_refused() -> None:
    body = encode_request_body(API.key, 1, STEADY)
    frame = memoryview(body.ljust(DEFAULT_LIMITS.bytes_max + 1, b"\0"))
    with pytest.raises(RequestTooLargeError, match="at most 4194304"):
        handle(RequestReader(frame, 0, True), a_call(API, 1), cast("Any", None))
    assert read_here(1, body.ljust(100_000, b"\0")).group_id == "g"


class Answering:
    """The part of a broker that a handler uses; it returns `told` at once, or raises it if it is a KafkaError."""

    def __init__(self, told: ConsumerHeartbeatAnswer | KafkaError) -> None:
        self.settings = CoordinatingBroker().settings
        self.groups = self
        self.told = told

    def at_once(self, group_id: str, look: object) -> ConsumerHeartbeatAnswer | None:
        return None if isinstance(self.told, KafkaError) or self.told.assignment is not None else self.told

    async def submit(self, group_id: str, decide: object) -> ConsumerHeartbeatAnswer:
        if isinstance(self.told, KafkaError):
            raise self.told
        return self.told


async def decoded(version: int, told: ConsumerHeartbeatAnswer | KafkaError, throttle_ms: int = 0) -> tuple[Any, int]:
    """The answer as kio reads it, and the error that observers receive."""
    call = a_call(API, version)
    call.throttle_ms = throttle_ms
    body = memoryview(encode_request_body(API.key, version, STEADY))
    answer: Any = handle(RequestReader(body, 0, True), call, Answering(told))  # type: ignore[arg-type]
    frame = b"".join(cast("Any", await reply_to(call, answer)))
    found = memoryview(frame)[len(prefix(0, 0, flexible=True)) :]
    return decode_response(API.key, version, found), call.error


ASSIGNMENTS = st.none() | st.dictionaries(
    st.uuids().filter(lambda found: found.int != 0),
    st.lists(st.integers(0, 2**31 - 1), max_size=200).map(tuple),
    max_size=3,
)


@pytest.mark.parametrize("version", versions(API))
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    member_id=st.text(max_size=200),
    epoch=st.integers(-2, 2**31 - 1),
    interval_ms=st.integers(0, 2**31 - 1),
    assignment=ASSIGNMENTS,
    throttle_ms=st.integers(0, 2**31 - 1),
)
async def test_kio_reads_what_is_packed(version: int, throttle_ms: int, **told: Any) -> None:
    answer = ConsumerHeartbeatAnswer(told["member_id"], told["epoch"], told["interval_ms"], told["assignment"])
    found, error = await decoded(version, answer, throttle_ms)
    assert (found.error_code, found.error_message, error) == (ErrorCode.NONE, None, 0)
    assert round(found.throttle_time.total_seconds() * 1000) == throttle_ms
    assert (found.member_id, found.member_epoch) == (answer.member_id, answer.member_epoch)
    assert round(found.heartbeat_interval.total_seconds() * 1000) == answer.heartbeat_interval_ms
    if answer.assignment is None:
        assert found.assignment is None
    else:
        listed = [(each.topic_id, each.partitions) for each in found.assignment.topic_partitions]
        assert listed == list(answer.assignment.items())


async def test_an_assignment_of_thousands_of_topics_is_packed_as_a_short_one() -> None:
    assignment = {UUID(int=number): (number,) for number in range(1, 3_000)}
    found, error = await decoded(1, ConsumerHeartbeatAnswer("m", 7, 5_000, assignment))
    assert (found.error_code, found.member_epoch, error) == (ErrorCode.NONE, 7, 0)
    assert {each.topic_id: each.partitions for each in found.assignment.topic_partitions} == assignment


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("message", ["Gruppe ö", "x" * (MESSAGE_MAX + 1)])
async def test_a_refusal_says_nothing_else(version: int, message: str) -> None:
    found, error = await decoded(version, KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message), 7)
    assert (found.error_code, error) == (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH)
    assert found.error_message == message[:MESSAGE_MAX]
    assert found.throttle_time.total_seconds() == 0.007
    assert (found.member_id, found.member_epoch, found.assignment) == (None, 0, None)
    assert found.heartbeat_interval.total_seconds() == 0


async def test_a_heartbeat_without_changes_is_answered_at_once_and_renews_its_session() -> None:
    def steady(**more: Any) -> Any:
        body = memoryview(encode_request_body(API.key, 1, {**STEADY, "member_epoch": 2, **more}))
        return consumer_group_heartbeat.handle(RequestReader(body, 0, True), a_call(API, 1), node)  # type: ignore[arg-type]

    async with CoordinatingBroker() as node:
        await node.lead()
        joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
        joined: Any = await node.ask(API, 1, {**STEADY, "member_epoch": 0, **joining})
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
        timers = node.groups.term_of("g").shard.environment.timers
        first = steady()
        assert not isinstance(first, tuple), "topics may have changed while it joined"
        await first
        timers.cancel(("g", "session", "m"))
        assert isinstance(steady(), tuple)
        assert ("g", "session", "m") in timers
        for more in ({"member_epoch": 1}, {"member_id": "other"}, {"subscribed_topic_names": ("orders",)}):
            answer = steady(**more)
            assert not isinstance(answer, tuple), f"{more} has to be decided in its time slice"
            await answer
