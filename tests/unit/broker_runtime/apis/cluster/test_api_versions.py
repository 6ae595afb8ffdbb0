"""The features that ApiVersions advertises (KIP-584); the ranges themselves are compared with Kafka's."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.cluster import describe_cluster
from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import encode_request_body
from tests.support.processes.clients.wire_client import read_answer
from tests.support.requests.calls import a_call

_, API = with_api_versions(describe_cluster.API)
"""The answer of a listener that serves one other API."""
OFFSET = 1 << 40


def ask(version: int, software: str = "client") -> dict[str, Any]:
    call = a_call(API, version)
    content = {"client_software_name": software, "client_software_version": "1"}
    body = encode_request_body(API.key, version, content)
    context: Any = SimpleNamespace(image=SimpleNamespace(offset=OFFSET))
    (reply,) = cast("tuple[bytes]", API.handle(RequestReader(memoryview(body), 0, call.flexible), call, context))
    return read_answer("api_versions", version, reply[4:])


def test_version_4_has_all_features_and_their_levels() -> None:
    answer = ask(4)
    assert answer["supported_features"] == [
        {"name": "eligible.leader.replicas.version", "min_version": 0, "max_version": 1},
        {"name": "group.version", "min_version": 0, "max_version": 1},
        {"name": "metadata.version", "min_version": 7, "max_version": 30},
        {"name": "transaction.version", "min_version": 0, "max_version": 2},
    ]
    assert [(each["name"], each["max_version_level"]) for each in answer["finalized_features"]] == [
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("metadata.version", 30),
        ("transaction.version", 2),
    ]
    assert all(each["min_version_level"] == each["max_version_level"] for each in answer["finalized_features"])
    assert answer["finalized_features_epoch"] == OFFSET


def test_version_3_leaves_out_features_that_begin_with_level_zero() -> None:
    answer = ask(3)
    assert [each["name"] for each in answer["supported_features"]] == ["metadata.version"]
    assert len(answer["finalized_features"]) == 4
    assert answer["finalized_features_epoch"] == OFFSET


@pytest.mark.parametrize("version", [3, 4])
def test_an_error_has_no_features(version: int) -> None:
    answer = ask(version, software="-")
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST.name.lower()
    assert answer["supported_features"] == answer["finalized_features"] == []
    assert answer["finalized_features_epoch"] == -1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_earlier_versions_have_none(version: int) -> None:
    assert "supported_features" not in ask(version)
