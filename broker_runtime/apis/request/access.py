"""The permissions of a call's client, if the node has an authorizer: the checks of `access_table`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.security.acls.model import CLUSTER_NAME, AclOperation, AclResource
from broker_runtime.security.acls.topic_filter import TopicFilter
from broker_runtime.security.principal import Principal
from broker_runtime.slicing.steps import Steps

if TYPE_CHECKING:
    from broker_runtime.apis.request.denials import Denials
    from broker_runtime.security.acls.authorizer import StandardAuthorizer

_CLUSTER, _TOPIC, _GROUP = AclResource.CLUSTER, AclResource.TOPIC, AclResource.GROUP
_WITH_CONFIGS_OF_THE_CLUSTER = frozenset((ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS))
OperationsOf = Callable[[int, AclResource], Sequence[AclOperation]]
WHY = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's messages of refusals, which name no resource."""


class Authorization:
    """The authorizer of a node, and the record of what it has denied.

    `operations_of` returns the table's operations, by the key of an API and the type of a resource.
    """

    def __init__(self, authorizer: "StandardAuthorizer", denials: "Denials", operations_of: OperationsOf) -> None:
        self.authorizer = authorizer
        self.denials = denials
        self.operations_of = operations_of


class _Api(Protocol):
    @property
    def key(self) -> int: ...

    @property
    def name(self) -> str: ...


class _Client(Protocol):
    principal: Principal

    @property
    def peer(self) -> tuple[str, int]: ...


class Access:
    """The permissions of the client of one call.

    Without an explicit operation, a check is for the operation of the API's table.
    """

    __slots__ = ("_authorizer", "_denials", "_host", "_key", "_name", "_operations_of", "_principal")

    def __init__(self, authorization: Authorization, client: _Client, api: _Api) -> None:
        self._authorizer, self._denials = authorization.authorizer, authorization.denials
        self._principal, self._host = client.principal, client.peer[0]
        self._key, self._name = api.key, api.name
        self._operations_of = authorization.operations_of

    def topic(self, name: str, operation: AclOperation | None = None, *, hides: bool = False) -> bool:
        """Return whether the operation on the topic is allowed.

        With `hides`, a denial only filters an answer and is not logged.
        """
        return self._allows(_TOPIC, name, operation, hides=hides)

    def group(self, name: str, operation: AclOperation | None = None, *, hides: bool = False) -> bool:
        return self._allows(_GROUP, name, operation, hides=hides)

    def cluster(self, operation: AclOperation | None = None, *, hides: bool = False) -> bool:
        return self._allows(_CLUSTER, CLUSTER_NAME, operation, hides=hides)

    def transactional_id(self, name: str, *, hides: bool = False) -> bool:
        return self._allows(AclResource.TRANSACTIONAL_ID, name, None, hides=hides)

    def any_topic(self, operation: AclOperation) -> Steps[bool]:
        """Return whether the operation is allowed on at least one topic name (KIP-679)."""
        return self._authorizer.allows_any(self._principal, self._host, operation, _TOPIC)

    @property
    def topic_filter(self) -> TopicFilter:
        """Return the filter of topics that the client may describe."""
        return TopicFilter(self._principal, self._host, self._authorizer)

    def operations(self, resource: AclResource, name: str, of: int) -> int:
        """Return the bits of those operations in `of` that are allowed (KIP-430)."""
        return self._authorizer.operations(self._principal, self._host, resource, name) & of

    @property
    def state(self) -> object:
        """Return a value that changes if another client asks, or the ACLs change."""
        return self._authorizer.state, self._principal, self._host

    def require_cluster(self, operation: AclOperation | None = None) -> None:
        """Raise KafkaError(CLUSTER_AUTHORIZATION_FAILED) if the operation on the cluster is denied."""
        if not self.cluster(operation):
            raise denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def require_topic(self, name: str, operation: AclOperation | None = None) -> None:
        """Raise KafkaError(TOPIC_AUTHORIZATION_FAILED) if the operation on the topic is denied."""
        if not self.topic(name, operation):
            raise denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def require_group(self, name: str, operation: AclOperation | None = None) -> None:
        """Raise KafkaError(GROUP_AUTHORIZATION_FAILED) if the operation on the group is denied."""
        if not self.group(name, operation):
            raise denied(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def require_config(self, resource_type: int, name: str) -> None:
        """Check that the API's operation on a configured resource is allowed.

        Raises KafkaError (TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED).
        """
        if resource_type == ResourceType.TOPIC:
            self.require_topic(name)
        elif resource_type == ResourceType.GROUP:
            self.require_group(name)
        elif resource_type in _WITH_CONFIGS_OF_THE_CLUSTER:
            self.require_cluster()

    def _allows(self, resource: AclResource, name: str, operation: AclOperation | None, *, hides: bool) -> bool:
        if operation is None:
            operation = self._operations_of(self._key, resource)[0]
        allowed = self._authorizer.operations(self._principal, self._host, resource, name) >> operation & 1
        if not allowed and not hides:
            self._denials.note(self._principal, self._host, self._name, operation, resource, name)
        return bool(allowed)


def denied(code: ErrorCode) -> KafkaError:
    """Return the error of a denied operation."""
    return KafkaError(code, WHY[code])
