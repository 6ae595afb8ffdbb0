"""The gate of whole requests, denials, and the envelope in which brokers forward requests."""

import logging
from typing import Any

import pytest

from broker_runtime.apis.groups import heartbeat
from broker_runtime.apis.partitions import list_partition_reassignments
from broker_runtime.apis.request import envelope, forwarding
from broker_runtime.apis.request.access_gate import access_gate
from broker_runtime.apis.request.denials import Denials
from broker_runtime.apis.request.dispatch import Dispatcher
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.security.principal import ANONYMOUS, Principal
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.messages import decode_request, decode_response, encode_request_body, encode_response_body
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import ENVELOPE, HEARTBEAT, LIST_PARTITION_REASSIGNMENTS
from tests.support.requests.access import allow, authorization_of
from tests.support.requests.calls import NotedConnection, a_call
from tests.support.requests.request_frames import encode_request
from tests.support.worlds.controller import ControllerInMemory

GUEST = Principal("User", "guest")
MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def ask(api: Any, version: int, content: dict[str, Any], *acls: Any) -> Any:
    """The reply behind the gate, decoded, or the name of the handler's exception."""
    dispatcher: Dispatcher[Any] = Dispatcher(ControllerInMemory(), [api], gate=access_gate)
    dispatcher.completion.authorization = authorization_of(*acls)
    frame = memoryview(encode_request(api.key, version, 1, content))[4:]
    reply = dispatcher.handle(frame, NotedConnection())
    assert isinstance(reply, tuple)
    return decode_response(api.key, version, memoryview(b"".join(reply))[9:])  # type: ignore[arg-type]


def test_the_gate_refuses_a_request_about_the_cluster() -> None:
    content: dict[str, Any] = {"timeout": 1000, "topics": None}
    answer = ask(list_partition_reassignments.API, 0, content)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_message == "Cluster authorization failed."


def test_the_gate_reads_the_group_of_a_request_and_leaves_it_to_the_handler() -> None:
    assert ask(heartbeat.API, 4, MEMBER).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(AttributeError, match="groups"):
        ask(heartbeat.API, 4, MEMBER, allow(AclResource.GROUP, AclOperation.READ, "g"))


def test_one_denial_in_an_interval_is_logged_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    denials = Denials(lambda: now_s[0])
    caplog.set_level(logging.INFO)
    for second in (0, 1, 2, 10):
        now_s[0] = second
        denials.note(GUEST, "10.0.0.1", "Produce", AclOperation.WRITE, AclResource.TOPIC, "t")
    first, second_line = [record.getMessage() for record in caplog.records]
    assert first == "User:guest from 10.0.0.1 is denied WRITE on TOPIC 't' for Produce"
    assert second_line == f"{first}; since the last such line, 2 other checks were denied"
    assert denials.counts == {(AclResource.TOPIC, AclOperation.WRITE): 4}


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "CN=a,O=ü"), Principal("Other", "")])
def test_a_principal_survives_its_way(principal: Principal) -> None:
    assert envelope.read_principal(envelope.principal_bytes(principal)) == principal


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x00\x01", b"\x00\x00\x05U", None])
def test_a_damaged_principal_is_refused(raw: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        envelope.read_principal(raw)


class Opened(ControllerInMemory):
    """An active controller that notes the request and the client of an envelope."""

    seen: tuple[bytes, ServedConnection]

    def dispatch(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        self.seen = bytes(frame), connection
        return (b"\x00\x00\x00\x05abcde",)


def sealed(frame: bytes, principal: bytes = envelope.principal_bytes(GUEST), host: bytes = b"\x0a\x00\x00\x07") -> Any:
    content = {"request_data": frame, "request_principal": principal, "client_host_address": host}
    return decode_request(ENVELOPE, 0, memoryview(encode_request_body(ENVELOPE, 0, content)))


async def test_a_controller_opens_an_envelope_as_the_client() -> None:
    node = Opened()
    async with node:
        frame = encode_request(LIST_PARTITION_REASSIGNMENTS, 0, 7, {"timeout": 1000, "topics": None})[4:]
        answer = await envelope.handle(sealed(frame), a_call(envelope.API, 0), node)  # type: ignore[arg-type]
        assert answer == {"error_code": ErrorCode.NONE, "response_data": b"abcde"}
        seen, client = node.seen
        assert (seen, client.principal, client.peer) == (frame, GUEST, ("10.0.0.7", 0))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (sealed(b"\x00"), ErrorCode.UNSUPPORTED_VERSION),
        (sealed(encode_request(HEARTBEAT, 4, 1, MEMBER)[4:]), ErrorCode.INVALID_REQUEST),
        (sealed(b"", principal=b"\x00\x09"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (sealed(b"", host=b"\x01"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ],
    ids=["no header", "not forwardable", "principal", "address"],
)
async def test_a_wrong_envelope_is_refused(request_: Any, code: ErrorCode) -> None:
    node = Opened()
    async with node:
        answer = await envelope.handle(request_, a_call(envelope.API, 0), node)  # type: ignore[arg-type]
        assert answer == {"error_code": code, "response_data": None}


class Link:
    """A link whose controller refuses or answers."""

    def __init__(self, code: ErrorCode, response: bytes | None) -> None:
        self._answer = {"error_code": code, "response_data": response}
        self.asked: list[tuple[int, bytes]] = []

    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        self.asked.append((api_key, bytes(body)))
        return memoryview(encode_response_body(ENVELOPE, 0, self._answer))


async def test_a_broker_seals_a_request_if_it_has_an_authorizer() -> None:
    api = list_partition_reassignments.API
    link: Any = Link(ErrorCode.NONE, b"\x00\x00\x00\x01\x00body")
    assert bytes(await forwarding.exchange(a_call(api, 0, authorization_of()), link, memoryview(b"x"))) == b"body"
    ((key, body),) = link.asked
    request = decode_request(ENVELOPE, 0, memoryview(body))
    assert (key, request.client_host_address) == (ENVELOPE, b"\x7f\x00\x00\x01")
    assert envelope.read_principal(request.request_principal) == ANONYMOUS
    await forwarding.exchange(a_call(api, 0), link, memoryview(b"x"))
    assert link.asked[1] == (LIST_PARTITION_REASSIGNMENTS, b"x")


async def test_a_broker_that_may_not_forward_says_what_to_do() -> None:
    link: Any = Link(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    call = a_call(list_partition_reassignments.API, 0, authorization_of())
    with pytest.raises(KafkaError, match=r"super\.users"):
        await forwarding.exchange(call, link, memoryview(b""))
