"""Frames of an exchange: what is answered, what ends the connection, and when an ordinary request is served."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.apis.sasl.authenticator import AuthenticationLimits, Authenticator
from broker_runtime.apis.sasl.checks import Checks
from broker_runtime.apis.sasl.listener_settings import ListenerSasl
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.security.principal import UNAUTHENTICATED
from broker_runtime.security.sasl.exchange import Limits
from broker_runtime.security.sasl.mechanism import Authenticated, OffloadedCheck, SaslRefusedError, Step
from broker_runtime.security.sasl.plain import PlainServer
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.support.processes.clients.wire_client import request_frame
from tests.support.requests.calls import NotedConnection

LISTENER = "SECURE"
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
INNER: Reply = (b"\0\0\0\x06\0\0\0\x01\0\0",)
"""A response whose first field is an error code of 0."""
UNSUPPORTED: Reply = (b"\0\0\0\x06\0\0\0\x01\0\x23",)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


class Connection(NotedConnection):
    listener = LISTENER

    def __init__(self) -> None:
        super().__init__()
        self.handler: FrameHandler = _unused
        self.bytes_max: int | None = None
        self.ends: list[tuple[float, str, str]] = []

    def limit_requests(self, bytes_max: int | None, /) -> None:
        self.bytes_max = bytes_max

    def refuse_in(self, delay_s: float, kind: str, text: str) -> None:
        self.ends.append((delay_s, kind, text))


def _unused(frame: memoryview, connection: ServedConnection) -> Reply:
    raise AssertionError


class Slow:
    """A mechanism whose check is run elsewhere."""

    def step(self, token: bytes, /) -> Step:
        return OffloadedCheck(lambda: token)

    def checked(self, result: object, /) -> Step:
        if result != b"good":
            raise SaslRefusedError("a bad token")
        return Authenticated("bob")


class Scene:
    def __init__(
        self, lifetime_ms: int = 0, delay_s: float = 0.0, versions: Reply = INNER, timeout_s: float = 30.0
    ) -> None:
        self.clock = Clock()
        self.served = 0
        self.versions = versions
        self.counts = AuthenticationCounts()
        users = {"alice": "secret", "carol": "secret"}
        sasl = ListenerSasl(
            {"PLAIN": lambda: PlainServer(users), "SLOW": Slow}, Limits({"PLAIN": lifetime_ms, "SLOW": lifetime_ms})
        )
        limits = AuthenticationLimits(1_000, delay_s, timeout_s)
        checks = Checks(10)
        authenticator = Authenticator(self.inner, {LISTENER: sasl}, limits, self.clock, checks, self.counts)
        self.connection = Connection()
        authenticator.begin(self.connection)

    def inner(self, frame: memoryview, connection: ServedConnection) -> Reply:
        self.served += 1
        return self.versions

    def frame(self, frame: bytes) -> Reply | PendingReply:
        return self.connection.handler(memoryview(frame), self.connection)

    def ask(self, api: str, version: int, **fields: Any) -> Reply | PendingReply:
        return self.frame(request_frame(api, version, 1, fields)[4:])

    def handshake(self, version: int = 1, mechanism: str = "PLAIN") -> Any:
        return self.decoded(SASL_HANDSHAKE, version, self.ask("sasl_handshake", version, mechanism=mechanism))

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.decoded(SASL_AUTHENTICATE, version, self.ask("sasl_authenticate", version, auth_bytes=token))

    def decoded(self, key: int, version: int, reply: Reply | PendingReply) -> Any:
        assert not isinstance(reply, PendingReply)
        return decode_response(key, version, memoryview(joined(reply))[8 + (version == 2) :])

    @property
    def counted(self) -> Mapping[str, int]:
        return {name: count for name, count in self.counts.by_listener[LISTENER].items() if count}


def joined(reply: Reply) -> bytes:
    return b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)


async def ended(reply: Reply | PendingReply) -> Reply | None:
    assert isinstance(reply, PendingReply)
    future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    reply.on_complete(future.set_result)
    return await asyncio.wait_for(future, 10)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_usual_exchange(version: int) -> None:
    scene = Scene()
    assert scene.connection.principal is UNAUTHENTICATED
    assert scene.connection.bytes_max == 1_000
    assert scene.ask("api_versions", 0) == INNER
    answer = scene.handshake()
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.NONE, ("PLAIN", "SLOW"))
    answer = scene.authenticate(RIGHT, version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (ErrorCode.NONE, "", b"")
    assert str(scene.connection.principal) == "User:alice"
    assert scene.connection.bytes_max is None
    assert scene.connection.handler == scene.inner
    expected = {"successful_authentication_total": 1}
    assert scene.counted == (expected if version else expected | {"successful_authentication_no_reauth_total": 1})


async def test_raw_tokens_follow_the_handshakes_version_0() -> None:
    scene = Scene()
    assert scene.handshake(version=0).error_code == ErrorCode.NONE
    assert scene.frame(RIGHT) == (bytes(4),)
    assert str(scene.connection.principal) == "User:alice"
    refused = Scene()
    refused.handshake(version=0)
    assert await ended(refused.frame(WRONG)) is None
    assert refused.counted == {"failed_authentication_total": 1}


async def test_a_failure_is_answered_later_and_ends_the_connection() -> None:
    scene = Scene(delay_s=0.05)
    scene.handshake()
    pending = scene.ask("sasl_authenticate", 2, auth_bytes=WRONG)
    assert scene.connection.ends == []
    assert scene.counted == {"failed_authentication_total": 1}
    reply = await ended(pending)
    answer = scene.decoded(SASL_AUTHENTICATE, 2, reply or ())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    ((delay_s, kind, text),) = scene.connection.ends
    assert (delay_s, kind) == (0.05, "authentication-failed")
    assert "PLAIN" in text
    later = scene.ask("sasl_authenticate", 2, auth_bytes=RIGHT)
    assert isinstance(later, PendingReply)
    assert str(scene.connection.principal) == "User:ANONYMOUS"


@pytest.mark.virtual_time
async def test_a_client_that_never_authenticates_is_refused() -> None:
    silent, done = Scene(), Scene()
    done.handshake()
    done.authenticate(RIGHT)
    await asyncio.sleep(29)
    assert silent.connection.refusals == []
    await asyncio.sleep(2)
    assert [kind for kind, _ in silent.connection.refusals] == ["authentication-too-slow"]
    assert silent.counted == {"failed_authentication_total": 1}
    assert done.connection.refusals == []


@pytest.mark.virtual_time
async def test_a_client_that_disconnects_meanwhile_is_forgotten() -> None:
    scene = Scene(delay_s=0.05)
    scene.handshake()
    pending = scene.ask("sasl_authenticate", 2, auth_bytes=WRONG)
    assert isinstance(pending, PendingReply)
    pending.cancel()
    await asyncio.sleep(0.1)
    assert scene.connection.ends == []


async def test_a_mechanism_that_is_not_enabled() -> None:
    scene = Scene()
    reply = await ended(scene.ask("sasl_handshake", 1, mechanism="GSSAPI"))
    answer = scene.decoded(SASL_HANDSHAKE, 1, reply or ())
    assert (answer.error_code, len(answer.mechanisms)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, 2)
    assert [kind for _, kind, _ in scene.connection.ends] == ["authentication-failed"]


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("metadata", 4, {"topics": None, "allow_auto_topic_creation": True}),
        ("sasl_authenticate", 1, {"auth_bytes": RIGHT}),
        ("produce", 7, {"acks": 1, "timeout": 1, "topic_data": [], "transactional_id": None}),
    ],
)
@pytest.mark.parametrize("after_versions", [False, True])
async def test_other_requests_before_the_handshake_end_the_connection(
    api: str, version: int, fields: dict[str, Any], after_versions: bool
) -> None:
    scene = Scene()
    if after_versions:
        scene.ask("api_versions", 0)
    with pytest.raises(ProtocolError) as refusal:
        scene.ask(api, version, **fields)
    assert refusal.value.kind == "sasl-sequence"
    assert scene.served == after_versions
    assert scene.counted == {}


async def test_api_versions_twice_and_unreadable_frames_end_the_connection() -> None:
    for frame in (b"", b"\0", b"\0\x11\0\x02\0\0\0\1\xff\xff", b"GET / HTTP/1.1"):
        scene = Scene()
        scene.ask("api_versions", 0)
        with pytest.raises(ProtocolError):
            scene.frame(frame)
    scene = Scene()
    scene.ask("api_versions", 0)
    with pytest.raises(ProtocolError):
        scene.ask("api_versions", 0)


async def test_an_unsupported_version_may_be_asked_for_again() -> None:
    scene = Scene(versions=UNSUPPORTED)
    assert scene.ask("api_versions", 0) == UNSUPPORTED
    assert scene.ask("api_versions", 0) == UNSUPPORTED
    assert scene.handshake().error_code == ErrorCode.NONE


async def test_another_request_after_the_handshake_gets_its_own_answer() -> None:
    scene = Scene()
    scene.handshake()
    reply = await ended(scene.ask("heartbeat", 3, group_id="g", generation_id=1, member_id="m", group_instance_id=None))
    assert reply is not None
    assert int.from_bytes(joined(reply)[12:14], "big") == ErrorCode.ILLEGAL_SASL_STATE
    silent = Scene()
    silent.handshake()
    assert await ended(silent.ask("metadata", 4, topics=None, allow_auto_topic_creation=True)) is None


async def test_a_check_runs_elsewhere() -> None:
    scene = Scene()
    scene.handshake(mechanism="SLOW")
    reply = await ended(scene.ask("sasl_authenticate", 2, auth_bytes=b"good"))
    assert scene.decoded(SASL_AUTHENTICATE, 2, reply or ()).error_code == ErrorCode.NONE
    assert str(scene.connection.principal) == "User:bob"
    refused = Scene()
    refused.handshake(mechanism="SLOW")
    reply = await ended(refused.ask("sasl_authenticate", 2, auth_bytes=b"bad"))
    answer = refused.decoded(SASL_AUTHENTICATE, 2, reply or ())
    assert answer.error_message.endswith("invalid credentials with SASL mechanism SLOW")


async def test_a_connection_that_is_being_closed_meanwhile_keeps_its_handler() -> None:
    scene = Scene()
    scene.handshake(mechanism="SLOW")
    reply = scene.ask("sasl_authenticate", 2, auth_bytes=b"good")
    scene.connection.handler = _unused
    await ended(reply)
    assert scene.connection.handler is _unused


async def test_a_session_ends_and_begins_again() -> None:
    scene = Scene(lifetime_ms=5_000)
    scene.handshake()
    assert scene.authenticate(RIGHT).session_lifetime.total_seconds() == 5
    assert scene.ask("metadata", 4, topics=None, allow_auto_topic_creation=True) == INNER
    scene.clock.now_s = 4.0
    principal = scene.connection.principal
    assert scene.handshake().error_code == ErrorCode.NONE
    assert scene.connection.bytes_max == 1_000
    assert scene.authenticate(RIGHT).error_code == ErrorCode.NONE
    assert scene.connection.principal is principal
    scene.clock.now_s = 4.5
    assert scene.ask("sasl_handshake", 1, mechanism="PLAIN") == INNER, "too soon: the ordinary answer"
    scene.clock.now_s = 9.1
    with pytest.raises(ProtocolError) as refusal:
        scene.ask("metadata", 4, topics=None, allow_auto_topic_creation=True)
    assert refusal.value.kind == "session-expired"
    assert scene.counted == {
        "successful_authentication_total": 1,
        "successful_reauthentication_total": 1,
        "expired_connections_killed_total": 1,
    }


@pytest.mark.virtual_time
async def test_an_authentication_that_begins_again_has_the_same_time_as_the_first() -> None:
    scene = Scene(lifetime_ms=5_000, timeout_s=10.0)
    scene.handshake()
    scene.authenticate(RIGHT)
    scene.clock.now_s = 4.0
    await asyncio.sleep(20)
    assert scene.connection.refusals == []
    scene.handshake()
    await asyncio.sleep(9)
    assert scene.connection.refusals == []
    await asyncio.sleep(2)
    ((kind, text),) = scene.connection.refusals
    assert kind == "authentication-too-slow"
    assert "sluicegate.sasl.timeout.ms" in text


@pytest.mark.virtual_time
@pytest.mark.parametrize("token", [RIGHT, WRONG])
async def test_an_authentication_that_has_ended_again_is_not_overdue(token: bytes) -> None:
    scene = Scene(lifetime_ms=5_000, timeout_s=10.0)
    scene.handshake()
    scene.authenticate(RIGHT)
    scene.clock.now_s = 4.0
    scene.handshake()
    scene.ask("sasl_authenticate", 2, auth_bytes=token)
    await asyncio.sleep(20)
    assert scene.connection.refusals == []


async def test_the_user_and_the_mechanism_of_a_session_stay() -> None:
    scene = Scene(lifetime_ms=5_000)
    scene.handshake()
    scene.authenticate(RIGHT)
    scene.handshake()
    reply = await ended(scene.ask("sasl_authenticate", 2, auth_bytes=b"\0carol\0secret"))
    answer = scene.decoded(SASL_AUTHENTICATE, 2, reply or ())
    assert answer.error_message == "Cannot change principals during re-authentication"
    assert scene.counted["failed_reauthentication_total"] == 1
    other = Scene(lifetime_ms=5_000)
    other.handshake()
    other.authenticate(RIGHT)
    assert other.handshake(mechanism="SLOW").error_code == ErrorCode.NONE
    assert await ended(other.ask("sasl_authenticate", 2, auth_bytes=b"good")) is None


FRAMES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda key, version, rest: key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\0" + rest,
        st.sampled_from([API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA]),
        st.integers(0, 4),
        st.binary(max_size=40),
    ),
    st.just(request_frame("sasl_handshake", 1, 1, {"mechanism": "PLAIN"})[4:]),
    st.just(request_frame("sasl_handshake", 0, 1, {"mechanism": "PLAIN"})[4:]),
    st.just(request_frame("sasl_authenticate", 2, 1, {"auth_bytes": WRONG})[4:]),
)


@given(st.lists(FRAMES, max_size=8))
async def test_no_frames_without_the_password_authenticate(frames: list[bytes]) -> None:
    scene = Scene(lifetime_ms=5_000)
    for frame in frames:
        try:
            reply = scene.frame(frame)
        except ProtocolError:
            break
        if isinstance(reply, PendingReply):
            break
    assert str(scene.connection.principal) == "User:ANONYMOUS"
    assert scene.served <= 1
