"""ACL requests are answered with SECURITY_DISABLED, once for each item that they have."""

from typing import Any, cast

import pytest

from broker_runtime.apis.acls import create_acls, delete_acls, describe_acls
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.messages import encode_request_body
from broker_runtime.wire.reader import RequestReader
from tests.support.groups.coordinating_broker import versions
from tests.support.processes.wire_client import read_answer
from tests.support.requests.calls import a_call

DISABLED = ErrorCode.SECURITY_DISABLED.name.lower()
CREATION = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def answer(api: ApiSpec[Any], version: int, body: bytes) -> Any:
    call = a_call(api, version)
    reply = api.handle(RequestReader(memoryview(body), 0, call.flexible), call, cast("Any", None))
    return reply[0] if isinstance(reply, tuple) else reply


@pytest.mark.parametrize("version", versions(create_acls.API))
@pytest.mark.parametrize("count", [0, 1, 300])
def test_each_creation_and_each_filter_has_its_answer(version: int, count: int) -> None:
    body = encode_request_body(create_acls.API.key, version, {"creations": [CREATION] * count})
    created = read_answer("create_acls", version, answer(create_acls.API, version, body)[4:])
    assert [each["error_code"] for each in created["results"]] == [DISABLED] * count
    body = encode_request_body(delete_acls.API.key, version, {"filters": [FILTER] * count})
    deleted = read_answer("delete_acls", version, answer(delete_acls.API, version, body)[4:])
    assert [each["error_code"] for each in deleted["filter_results"]] == [DISABLED] * count
    assert all(each["matching_acls"] == [] for each in deleted["filter_results"])


def test_none_are_described() -> None:
    found: Any = describe_acls.handle(cast("Any", None), a_call(describe_acls.API, 3), cast("Any", None))
    assert (found["error_code"], found["resources"]) == (ErrorCode.SECURITY_DISABLED, [])


@pytest.mark.parametrize("api", [create_acls.API, delete_acls.API], ids=["create", "delete"])
@pytest.mark.parametrize(
    "body", [b"\x00\x00\x00\x02" + b"x" * 15, b"\xff\xff\xff\xff", bytes(DEFAULT_LIMITS.bytes_max + 1)], ids=range(3)
)
def test_a_malformed_request_ends_the_connection(api: ApiSpec[Any], body: bytes) -> None:
    with pytest.raises(ProtocolError):
        answer(api, 1, body)
