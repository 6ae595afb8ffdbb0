"""The gate of whole requests, denials, and the envelope in which brokers forward requests."""

import logging
from typing import Any

import pytest

from broker_runtime.apis.groups import heartbeat
from broker_runtime.apis.partitions import list_partition_reassignments
from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.request.authorization.access_gate import access_gate
from broker_runtime.apis.request.denials import Denials
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.forwarding import to_controller
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.security.principal import ANONYMOUS, Principal
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.envelope import read_envelope
from broker_runtime.wire.messages import decode_response, encode_response_body
from broker_runtime.wire.reply import Parts
from broker_runtime.wire.versions import API_VERSIONS, ENVELOPE, LIST_PARTITION_REASSIGNMENTS
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


def test_a_refused_client_is_told_its_throttle_time() -> None:
    call = a_call(list_partition_reassignments.API, 0, authorization_of())
    call.throttle(700)
    reply = access_gate(call)
    assert reply is not None
    body = memoryview(b"".join(map(bytes, reply)))[9:]  # type: ignore[arg-type]
    answer = decode_response(LIST_PARTITION_REASSIGNMENTS, 0, body)
    assert answer.throttle_time.total_seconds() == 0.7
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


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


class Link:
    """A link whose controller serves `keys`, and refuses or answers what comes in an envelope."""

    def __init__(self, code: ErrorCode, response: bytes | None, keys: tuple[int, ...] = (ENVELOPE,)) -> None:
        self._answer = {"error_code": code, "response_data": response}
        self._keys = [{"api_key": key, "min_version": 0, "max_version": 0} for key in keys]
        self.asked: list[tuple[int, bytes]] = []

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        if api_key == API_VERSIONS:
            known = {"error_code": ErrorCode.NONE, "api_keys": self._keys}
            return (memoryview(encode_response_body(API_VERSIONS, version, known)),)
        self.asked.append((api_key, bytes(body)))
        return (memoryview(encode_response_body(ENVELOPE, 0, self._answer)),)


@pytest.mark.parametrize("authorization", [authorization_of(), None], ids=["authorizer", "no authorizer"])
async def test_a_broker_seals_each_request(authorization: Authorization | None) -> None:
    api = list_partition_reassignments.API
    link: Any = Link(ErrorCode.NONE, b"\x00\x00\x00\x01\x00body")
    assert b"".join(await to_controller(memoryview(b"x"), a_call(api, 0, authorization), link)) == b"body"
    ((key, body),) = link.asked
    sealed = read_envelope(RequestReader(memoryview(body), 0, flexible=True))
    assert (key, sealed.principal, sealed.address) == (ENVELOPE, ANONYMOUS, "127.0.0.1")


def test_a_name_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    forger = Principal("User", "a\n2026-01-01 User:root is allowed")
    Denials(lambda: 0.0).note(forger, "10.0.0.1", "Produce", AclOperation.WRITE, AclResource.TOPIC, "t\n")
    assert "\n" not in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("keys", "says"), [((ENVELOPE,), r"super\.users"), ((API_VERSIONS,), "a release without authorization")]
)
async def test_a_broker_that_may_not_forward_says_what_to_do(keys: tuple[int, ...], says: str) -> None:
    link: Any = Link(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, keys)
    call = a_call(list_partition_reassignments.API, 0, authorization_of())
    with pytest.raises(KafkaError, match=says):
        await to_controller(memoryview(b""), call, link)
    assert LIST_PARTITION_REASSIGNMENTS not in [key for key, _ in link.asked]
