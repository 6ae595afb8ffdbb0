"""An in-memory broker with users, for tests of KafkaUsers: credentials, ACLs and quotas behind Kafka's requests."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.create_acls.v2.request import CreateAclsRequest
from kio.schema.create_acls.v2.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v2.request import DeleteAclsRequest
from kio.schema.delete_acls.v2.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.describe_acls.v2.request import DescribeAclsRequest
from kio.schema.describe_acls.v2.response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8, i32
from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.quotas import MATCH_ANY_NAME
from sluicegate_operator.planning.users.acl_rules import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, PeerRequest, ScriptedPeer, encode, framed, versions

Request = TypeVar("Request", bound=RequestPayload)


class ScriptedUsers:
    """The state is public. `authorizer`: whether the broker has one; `away`: it refuses connections."""

    def __init__(self) -> None:
        self.peer = ScriptedPeer()
        self.rules: set[AclRule] = set()
        self.passwords: dict[str, bytes] = {}
        """Salted passwords by user."""
        self.quotas: dict[str, dict[str, float]] = {}
        self.authorizer = True
        self.refused: set[str] = set()
        """Names of resources whose ACLs are refused."""
        self.writes = 0
        self.peer.answer(versions(SERVED | {29: 3, 30: 3, 31: 3, 50: 0, 51: 0}))
        self._serve(29, DescribeAclsRequest, self._describe_acls)
        self._serve(30, CreateAclsRequest, self._create_acls)
        self._serve(31, DeleteAclsRequest, self._delete_acls)
        self._serve(48, DescribeClientQuotasRequest, self._describe_quotas)
        self._serve(49, AlterClientQuotasRequest, self._alter_quotas)
        self._serve(50, DescribeUserScramCredentialsRequest, self._describe_scram)
        self._serve(51, AlterUserScramCredentialsRequest, self._alter_scram)

    def pool(self) -> BrokerPool:
        async def connect(address: tuple[str, int], factory: Callable[[], asyncio.Protocol]) -> object:
            return await self.peer.connect(address, factory)

        return BrokerPool(AdminClient([("b0", 9092)], connect=connect), (BrokerAddress(0, "b0", 9092),), 30.0)

    def _serve(self, api_key: int, kind: type[Request], handle: Callable[[Request], ResponsePayload]) -> None:
        def answer(request: PeerRequest) -> bytes:
            reply = handle(ScriptedCluster.decoded(kind, request))
            return framed(request.correlation_id, b"\x00" + encode(reply))

        self.peer.script(api_key, answer)

    def _describe_acls(self, request: DescribeAclsRequest) -> DescribeAclsResponse:
        disabled = ErrorCode.none if self.authorizer else ErrorCode.security_disabled
        found = sorted(rule for rule in self.rules if request.principal_filter in (None, rule.principal))
        return DescribeAclsResponse(
            throttle_time=NO_THROTTLE,
            error_code=disabled,
            error_message=None,
            resources=tuple(
                DescribeAclsResource(
                    resource_type=i8(rule.resource_type),
                    resource_name=rule.name,
                    pattern_type=i8(rule.pattern_type),
                    acls=(
                        AclDescription(
                            principal=rule.principal,
                            host=rule.host,
                            operation=i8(rule.operation),
                            permission_type=i8(rule.permission),
                        ),
                    ),
                )
                for rule in found
            ),
        )

    def _create_acls(self, request: CreateAclsRequest) -> CreateAclsResponse:
        self.writes += 1
        for one in request.creations:
            if one.resource_name in self.refused:
                continue
            self.rules.add(
                AclRule(
                    AclResourceType(one.resource_type),
                    one.resource_name,
                    AclPatternType(one.resource_pattern_type),
                    one.principal,
                    one.host,
                    AclOperation(one.operation),
                    AclPermission(one.permission_type),
                )
            )
        results = tuple(
            AclCreationResult(
                error_code=ErrorCode.invalid_request if one.resource_name in self.refused else ErrorCode.none,
                error_message=None,
            )
            for one in request.creations
        )
        return CreateAclsResponse(throttle_time=NO_THROTTLE, results=results)

    def _delete_acls(self, request: DeleteAclsRequest) -> DeleteAclsResponse:
        self.writes += 1
        for one in request.filters:
            self.rules -= {
                rule
                for rule in self.rules
                if (int(rule.resource_type), rule.name) == (one.resource_type_filter, one.resource_name_filter)
                and (rule.principal, int(rule.operation)) == (one.principal_filter, one.operation)
            }
        code = ErrorCode.none if self.authorizer else ErrorCode.security_disabled
        result = DeleteAclsFilterResult(error_code=code, error_message=None, matching_acls=())
        return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(result,) * len(request.filters))

    def _describe_quotas(self, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        [component] = request.components
        entries = tuple(
            EntryData(
                entity=(EntityData(entity_type="user", entity_name=user),),
                values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
            )
            for user, values in self.quotas.items()
            if values and (component.match_type == MATCH_ANY_NAME or component.match == user)
        )
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            entries=entries,
        )

    def _alter_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        self.writes += 1
        for entry in request.entries:
            values = self.quotas.setdefault(entry.entity[0].entity_name or "", {})
            for op in entry.ops:
                values.pop(op.key, None)
                if not op.remove:
                    values[op.key] = float(op.value)
        return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=())

    def _describe_scram(self, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
        results = tuple(self._credentials(user.name) for user in request.users or ())
        return DescribeUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, results=results
        )

    def _credentials(self, user: str) -> DescribeUserScramCredentialsResult:
        known = user in self.passwords
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.none if known else ErrorCode.resource_not_found,
            error_message=None,
            credential_infos=(CredentialInfo(mechanism=i8(2), iterations=i32(4096)),) if known else (),
        )

    def _alter_scram(self, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        self.writes += 1
        for removed in request.deletions:
            self.passwords.pop(removed.name, None)
        for one in request.upsertions:
            self.passwords[one.name] = one.salted_password
        names = {removed.name for removed in request.deletions} | {one.name for one in request.upsertions}
        results = tuple(
            AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.none, error_message=None) for name in names
        )
        return AlterUserScramCredentialsResponse(throttle_time=NO_THROTTLE, results=results)
