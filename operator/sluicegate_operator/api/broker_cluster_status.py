"""The status of a BrokerCluster, which only the operator writes."""

from typing import Annotated

from pydantic import Field

from sluicegate_operator.api.metadata import Status
from sluicegate_operator.api.rules import Model

LIMITS_SET_MAX = 10_000
NO_CONTROLLER = -1
"""Kafka's id of no node."""
SERVERS_MAX = 32 * 271
"""Length of 32 bootstrap servers with commas between them."""
VERSION_MAX = 600
"""Length of two releases with ' to ' between them, each as long as a tag may be."""


class RolloutStatus(Model):
    model_config = Status.model_config

    reason: str = Field(default="", max_length=64)
    """One word that says what the roll does or waits for; Done when no node needs a restart."""
    message: str = Field(default="", max_length=4096)
    """A sentence that names what is restarted, or the broker and partition that are waited for."""
    waiting: tuple[str, ...] = Field(default=(), max_length=200)
    """Pods that need a restart and have not had it."""


class VolumesStatus(Model):
    model_config = Status.model_config

    brokers: Annotated[str, Field(max_length=32)] | None = None
    """The most that a broker's volume has been asked to hold."""
    controllers: Annotated[str, Field(max_length=32)] | None = None
    """The same of controllers."""
    growing: tuple[Annotated[str, Field(max_length=1024)], ...] = Field(default=(), max_length=120)
    """Of each volume that does not hold what it should: how far it is, or why it stays."""


class ListenerAddresses(Model):
    """Where clients of one listener connect first."""

    model_config = Status.model_config

    name: str = Field(max_length=63)
    """Kafka's name of the listener."""
    bootstrap_servers: str = Field(max_length=270)
    """host:port for bootstrap.servers of clients."""


class BrokerClusterStatus(Status):
    brokers: str = Field(default="", max_length=32)
    """Brokers that are ready, of those that should be or still are: 3/3."""
    ready_brokers: int = 0
    """Brokers that are ready."""
    replicas: int | None = None
    """Broker pods that exist. `kubectl scale` and autoscalers read this number; absent with runtime External."""
    selector: str | None = Field(default=None, max_length=512)
    """Label selector of the broker pods, for autoscalers; absent with runtime External."""
    version: str | None = Field(default=None, max_length=VERSION_MAX)
    """Release that the brokers run, or the lowest and the highest one during an upgrade. With runtime External the
    metadata.version that the cluster has finalized."""
    bootstrap_servers: str = Field(default="", max_length=SERVERS_MAX)
    """Value for bootstrap.servers of clients: the address of the first listener by name. With runtime External the
    bootstrapServers of the spec."""
    listeners: tuple[ListenerAddresses, ...] | None = Field(default=None, max_length=64)
    """Listeners that clients can use now, by name; absent with runtime External."""
    cluster_id: str = Field(default="", max_length=64)
    """Kafka's id of the cluster."""
    controller_id: int = NO_CONTROLLER
    """The node id of the active controller; -1 while unknown, and once none has answered the operator for a minute."""
    rollout: RolloutStatus | None = None
    """How far a roll is."""
    volumes: VolumesStatus | None = None
    """Volumes of nodes."""
    dynamic_config_keys: tuple[Annotated[str, Field(max_length=253)], ...] = Field(default=(), max_length=256)
    """Keys of spec.config and of tags that the operator has set on the brokers and takes away again once they leave the
    spec."""
    limits_set: tuple[Annotated[str, Field(max_length=270)], ...] | None = Field(
        default=None, max_length=LIMITS_SET_MAX
    )
    """With runtime External: what ConnectionQuotas have set limits on, which are lifted when the quotas go."""
    voters: tuple[Annotated[str, Field(max_length=99)], ...] | None = Field(default=None, max_length=99)
    """With runtime External: the controllers, and how far each is behind the active one."""
