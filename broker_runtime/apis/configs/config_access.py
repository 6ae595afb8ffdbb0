"""Which resource a client needs to describe or change a configuration."""

from broker_runtime.apis.request.access import Access
from broker_runtime.metadata.configs import ResourceType


def require_config(access: Access | None, resource_type: int, name: str) -> None:
    """Check the operation that the API's table has for this kind of resource.

    Raises KafkaError (TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED).
    """
    if access is None:
        return
    if resource_type == ResourceType.TOPIC:
        access.require_topic(name)
    elif resource_type == ResourceType.GROUP:
        access.require_group(name)
    elif resource_type in _OF_THE_CLUSTER:
        access.require_cluster()


_OF_THE_CLUSTER = frozenset((ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS))
