"""CreateAcls, DescribeAcls and DeleteAcls on every version; without an authorizer they answer SECURITY_DISABLED."""

from typing import Any, cast

import pytest

from broker_runtime.apis.acls import create_acls, delete_acls, describe_acls
from broker_runtime.apis.request.context import ApiSpec, ReadRequest
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.wire.messages import decode_request, encode_request_body
from tests.support.groups.coordinating_broker import versions
from tests.support.requests.access import allow, authorization_by, authorization_of
from tests.support.requests.calls import a_call, fields_later
from tests.support.worlds.controller import ControllerInMemory

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
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
SUPER = frozenset({"User:ANONYMOUS"})


class Guarded(ControllerInMemory):
    """A controller whose clients are super users."""

    async def __aenter__(self) -> "Guarded":
        await super().__aenter__()
        self.authorization = authorization_by(lambda: self.image, SUPER)
        return self

    async def create(self, *creations: dict[str, Any], version: int = 3) -> list[Any]:
        content = {"creations": [CREATION | each for each in creations]}
        answer = await self.ask(create_acls.ON_CONTROLLER, version, content)
        return [(each["error_code"], each["error_message"]) for each in answer["results"]]

    async def delete(self, *filters: dict[str, Any], version: int = 3) -> list[Any]:
        content = {"filters": [FILTER | each for each in filters]}
        answer = await self.ask(delete_acls.ON_CONTROLLER, version, content)
        return [
            (each["error_code"], sorted(acl["resource_name"] for acl in each["matching_acls"]))
            for each in answer["filter_results"]
        ]

    async def describe(self, version: int = 3, **wanted: Any) -> list[Any]:
        answer = await self.ask(describe_acls.API, version, FILTER | wanted)
        assert answer["error_code"] == ErrorCode.NONE
        return sorted(
            (found["resource_name"], found["pattern_type"], len(found["acls"])) for found in answer["resources"]
        )


@pytest.mark.parametrize("version", versions(create_acls.API))
async def test_acls_are_created_found_and_deleted(version: int) -> None:
    async with Guarded() as node:
        created = await node.create({}, {"operation": 4}, {"resource_pattern_type": 4}, version=version)
        assert created == [(ErrorCode.NONE, "")] * 3
        assert await node.describe(version) == [("t", 3, 2), ("t", 4, 1)]
        assert await node.delete({"pattern_type_filter": 3}, {"operation": 3}, version=version) == [
            (ErrorCode.NONE, ["t", "t"]),
            (ErrorCode.NONE, ["t", "t"]),
        ]
        assert await node.describe(version) == []
        assert len(node.image.acls) == 0


async def test_an_acl_that_exists_is_created_without_a_record() -> None:
    async with Guarded() as node:
        assert await node.create({}, {}) == [(ErrorCode.NONE, "")] * 2
        assert await node.create({}) == [(ErrorCode.NONE, "")]
        assert len(node.image.acls) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
        ),
    ],
)
async def test_an_invalid_acl_gets_an_error_and_the_others_are_created(wrong: dict[str, Any], message: str) -> None:
    async with Guarded() as node:
        assert await node.create(wrong, {"resource_name": "good"}) == [
            (ErrorCode.INVALID_REQUEST, message),
            (ErrorCode.NONE, ""),
        ]
        assert await node.describe() == [("good", 3, 1)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"pattern_type_filter": 2, "resource_name_filter": "orders"}, ["*", "or", "orders"]),
        ({"pattern_type_filter": 1, "resource_name_filter": "or"}, ["or"]),
        ({"pattern_type_filter": 3, "resource_name_filter": "orders"}, ["orders"]),
        ({"pattern_type_filter": 3}, ["*", "orders"]),
        ({"pattern_type_filter": 4}, ["or"]),
        ({"principal_filter": "User:a"}, ["*", "or", "orders"]),
        ({"principal_filter": "User:b"}, []),
        ({"host_filter": "10.0.0.1"}, []),
        ({"operation": 2}, []),
        ({"resource_type_filter": 1}, ["*", "group", "or", "orders"]),
    ],
)
async def test_filters(wanted: dict[str, Any], found: list[str]) -> None:
    async with Guarded() as node:
        await node.create(
            {"resource_name": "orders"},
            {"resource_name": "or", "resource_pattern_type": 4},
            {"resource_name": "*"},
            {"resource_name": "group", "resource_type": 3},
        )
        assert [name for name, _, _ in await node.describe(**wanted)] == found


async def test_the_acls_of_a_cluster_and_of_a_request_are_limited() -> None:
    async with Guarded(properties={"sluicegate.acls.max": "2"}) as node:
        names = [{"resource_name": str(number)} for number in range(3)]
        assert {code for code, _ in await node.create(*names)} == {ErrorCode.POLICY_VIOLATION}
        assert await node.create(*names[:2]) == [(ErrorCode.NONE, "")] * 2
        ((code, message),) = await node.create(names[2])
        assert code == ErrorCode.POLICY_VIOLATION
        assert "sluicegate.acls.max" in message
        assert await node.create(names[0]) == [(ErrorCode.NONE, "")]


async def test_the_texts_of_all_acls_are_limited() -> None:
    async with Guarded(properties={"sluicegate.acls.text.bytes.max": "1000"}) as node:
        assert await node.create({"resource_name": "ö" * 200}) == [(ErrorCode.NONE, "")]
        ((code, message),) = await node.create({"resource_name": "ö" * 300})
        assert code == ErrorCode.POLICY_VIOLATION
        assert "sluicegate.acls.text.bytes.max" in message
        await node.delete({"resource_name_filter": "ö" * 200})
        assert await node.create({"resource_name": "ö" * 300}) == [(ErrorCode.NONE, "")]


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
async def test_an_unknown_element_ends_the_connection(field: str) -> None:
    async with Guarded() as node:
        with pytest.raises(ProtocolError, match="UNKNOWN"):
            await node.create({field: 0})
        of_filter = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}
        for ask in (node.delete({of_filter.get(field, field): 0}), node.describe(**{of_filter.get(field, field): 0})):
            with pytest.raises(ProtocolError, match="UNKNOWN"):
                await ask


@pytest.mark.parametrize("authorized", [True, False], ids=["denied", "no authorizer"])
async def test_without_permission_or_authorizer_each_item_has_the_error(authorized: bool) -> None:
    async with ControllerInMemory() as node:
        node.authorization = authorization_of() if authorized else None
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if authorized else ErrorCode.SECURITY_DISABLED
        created = await node.ask(create_acls.ON_CONTROLLER, 3, {"creations": [CREATION] * 2})
        deleted = await node.ask(delete_acls.ON_CONTROLLER, 3, {"filters": [FILTER] * 2})
        assert [each["error_code"] for each in (*created["results"], *deleted["filter_results"])] == [code] * 4
        assert len(node.image.acls) == 0
        if authorized:
            node.authorization = authorization_of(allow(AclResource.CLUSTER, AclOperation.ALTER))
            created = await node.ask(create_acls.ON_CONTROLLER, 3, {"creations": [CREATION]})
            assert created["results"][0]["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("api", [create_acls.API, delete_acls.API], ids=["create", "delete"])
async def test_a_broker_without_an_authorizer_forwards_nothing(api: ApiSpec[Any]) -> None:
    async with ControllerInMemory() as node:
        content = {"creations": [CREATION]} if api is create_acls.API else {"filters": [FILTER]}
        body = memoryview(encode_request_body(api.key, 3, content))
        read = ReadRequest(decode_request(api.key, 3, body), bytes(body))
        answer = await fields_later(api.handle(read, a_call(api, 3), cast("Any", node)))
        assert [each["error_code"] for each in next(iter(answer.values()))] == [ErrorCode.SECURITY_DISABLED]


def test_none_are_described_without_an_authorizer() -> None:
    found: Any = describe_acls.handle(cast("Any", None), a_call(describe_acls.API, 3), cast("Any", None))
    assert (found["error_code"], found["resources"]) == (ErrorCode.SECURITY_DISABLED, [])
