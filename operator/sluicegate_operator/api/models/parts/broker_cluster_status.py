"""The status of a BrokerCluster, which only the operator writes."""

from typing import Annotated

from pydantic import Field

from sluicegate_operator.api.models.parts.cluster_ca import ClusterCaStatus
from sluicegate_operator.api.schema.metadata import Status
from sluicegate_operator.api.schema.rules import Model

LIMITS_SET_MAX = 10_000
NO_CONTROLLER = -1
"""The id that Kafka uses for no node."""
SERVERS_MAX = 32 * 271
"""Length of 32 bootstrap servers with commas between them."""
LISTENERS_MAX = 64
"""Most listeners that a status shows. Brokers may have more."""
VERSION_MAX = 600
"""Length of two releases with ' to ' between them, each as long as a tag may be."""
RELEASE_MAX = 64
"""Length of the operator's release."""


class RolloutStatus(Model):
    model_config = Status.model_config

    reason: str = Field(default="", max_length=64)
    """One word for what the roll does or waits for; Done if no node needs a restart."""
    message: str = Field(default="", max_length=4096)
    """A sentence that names what is restarted, or the broker and partition for which the roll waits."""
    waiting: tuple[str, ...] = Field(default=(), max_length=200)
    """Pods that need a restart and have not been restarted yet."""


class VolumesStatus(Model):
    model_config = Status.model_config

    brokers: Annotated[str, Field(max_length=32)] | None = None
    """The largest size that a broker's volume has been asked to have."""
    controllers: Annotated[str, Field(max_length=32)] | None = None
    """The largest size that a controller's volume has been asked to have."""
    growing: tuple[Annotated[str, Field(max_length=1024)], ...] = Field(default=(), max_length=120)
    """For each volume that is smaller than it should be: its progress, or why it stays."""


class ListenerAddresses(Model):
    """The address of one listener for the first connection of clients."""

    model_config = Status.model_config

    name: str = Field(max_length=63)
    """Kafka's name of the listener."""
    bootstrap_servers: str = Field(max_length=270)
    """host:port for bootstrap.servers of clients."""


class BrokerClusterStatus(Status):
    brokers: str = Field(default="", max_length=32)
    """Ready brokers, of those that should exist or still exist: 3/3."""
    ready_brokers: int = 0
    """Number of ready brokers."""
    replicas: int | None = None
    """Number of existing broker pods, which `kubectl scale` and autoscalers read; absent with runtime External."""
    selector: str | None = Field(default=None, max_length=512)
    """Label selector of the broker pods, for autoscalers; absent with runtime External."""
    version: str | None = Field(default=None, max_length=VERSION_MAX)
    """Release that the brokers run, or the lowest and the highest one during an upgrade. With runtime External it is
    the finalized metadata.version of the cluster."""
    bootstrap_servers: str = Field(default="", max_length=SERVERS_MAX)
    """Value for bootstrap.servers of clients: the address of the first listener by name. With runtime External it is
    bootstrapServers of the spec."""
    listeners: tuple[ListenerAddresses, ...] | None = Field(default=None, max_length=LISTENERS_MAX)
    """Listeners that clients can use now, by name, the first 64; absent with runtime External."""
    cluster_id: str = Field(default="", max_length=64)
    """Kafka's id of the cluster."""
    controller_id: int = NO_CONTROLLER
    """The node id of the active controller; -1 while it is unknown, and once no controller has answered the operator
    for a minute."""
    rollout: RolloutStatus | None = None
    """Progress of a roll."""
    volumes: VolumesStatus | None = None
    """Volumes of nodes."""
    cluster_ca: ClusterCaStatus | None = None
    """The ends of the cluster's own certificates, with spec.clusterCa."""
    operator_version: str | None = Field(default=None, max_length=RELEASE_MAX)
    """Release of the operator that wrote this status. An operator that is older by more than one minor release changes
    nothing of the cluster."""
    dynamic_config_keys: tuple[Annotated[str, Field(max_length=253)], ...] = Field(default=(), max_length=256)
    """Keys of spec.config and of tags that the operator has set on the brokers, and that it removes when they leave the
    spec."""
    limits_set: tuple[Annotated[str, Field(max_length=270)], ...] | None = Field(
        default=None, max_length=LIMITS_SET_MAX
    )
    """With runtime External: the limits that the operator has set for ConnectionQuotas, and that it lifts when no quota
    asks for them."""
    voters: tuple[Annotated[str, Field(max_length=99)], ...] | None = Field(default=None, max_length=99)
    """With runtime External: the controllers, and how far each lags behind the active one."""
