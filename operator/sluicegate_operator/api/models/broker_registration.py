"""BrokerRegistration: the active controller's view of one broker, written by the operator for users to read.

Only the operator writes its spec. There is one object for each registered broker, named <cluster>-<id>.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.broker_tags import VALUE_MAX
from sluicegate_operator.api.schema.metadata import (
    AGE_COLUMN,
    CLUSTER_COLUMN,
    INT_MAX,
    MESSAGE_COLUMN,
    READY_COLUMN,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, TransitionRule

TAGS_MAX = 128
"""A broker can have as many by its dynamic configuration."""


class BrokerRegistrationSpec(Model):
    """The broker whose registration the object shows."""

    transitions: ClassVar = (
        TransitionRule(
            cel="self.clusterRef.name == oldSelf.clusterRef.name && self.brokerId == oldSelf.brokerId",
            message="a BrokerRegistration always belongs to the same broker: only the operator may change it",
            allows=lambda old, new: old.cluster_ref == new.cluster_ref and old.broker_id == new.broker_id,
        ),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster that the broker is registered with."""
    broker_id: int = Field(ge=0, le=INT_MAX)
    """Kafka's id of the broker."""


class BrokerRegistrationStatus(Status):
    state: Literal["Offline", "Fenced", "Online", "Stopping", "Unknown"] | None = None
    """Offline: not running or not ready to register; Fenced: connected but not serving clients; Online: serving
    clients; Stopping: its leaders are being moved to other brokers; Unknown: no controller has answered the operator
    for a minute."""
    broker_epoch: int | None = None
    """The broker's epoch, which is assigned at each registration; requests with an older epoch are refused."""
    incarnation_id: str | None = Field(default=None, max_length=64)
    """The id that the broker's process generated when it started."""
    last_heartbeat_age_seconds: int | None = None
    """Seconds since the broker's last heartbeat to the controller, in coarse steps; absent without a session."""
    pod: str | None = Field(default=None, max_length=253)
    """The pod in which it runs; absent if there is none."""
    rack: str | None = Field(default=None, max_length=253)
    """The rack with which it registered; absent if it has none."""
    leaders: int | None = None
    """Number of partitions that it leads."""
    replicas: int | None = None
    """Number of replicas on the broker."""
    out_of_sync: int | None = None
    """Number of the broker's replicas that are not in their in-sync set."""
    metadata_lag: int | None = None
    """Number of metadata records by which it lags behind, from its last heartbeat, in coarse steps."""
    version: str | None = Field(default=None, max_length=VALUE_MAX)
    """The release that it reports."""
    protocol_version_min: int | None = None
    """The lowest protocol version that it reports (docs/reference/broker-metadata.md)."""
    protocol_version_max: int | None = None
    """The highest protocol version that it reports."""
    tags: Annotated[dict[str, Annotated[str, Field(max_length=VALUE_MAX)]], Field(max_length=TAGS_MAX)] | None = None
    """Tags that the broker publishes to clients in addition to the built-in ones: brokers.tags, tagsFromNodeLabels, and
    tags that were set by hand; the first 128 by name."""


class BrokerRegistration(Resource):
    """The active controller's view of one broker; written by the operator, read-only for users."""

    plural: ClassVar = "brokerregistrations"
    short_name: ClassVar = "br"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Broker", json_path=".spec.brokerId", type="integer"),
        PrinterColumn(name="State", json_path=".status.state"),
        PrinterColumn(name="Epoch", json_path=".status.brokerEpoch", type="integer"),
        PrinterColumn(name="Heartbeat", json_path=".status.lastHeartbeatAgeSeconds", type="integer"),
        PrinterColumn(name="Leaders", json_path=".status.leaders", type="integer"),
        PrinterColumn(name="Out-Of-Sync", json_path=".status.outOfSync", type="integer"),
        PrinterColumn(name="Pod", json_path=".status.pod"),
        PrinterColumn(name="Rack", json_path=".status.rack"),
        PrinterColumn(name="Version", json_path=".status.version", priority=1),
        AGE_COLUMN,
        READY_COLUMN.model_copy(update={"priority": 1}),
        MESSAGE_COLUMN,
    )

    kind: Literal["BrokerRegistration"] = "BrokerRegistration"
    spec: BrokerRegistrationSpec
    """The broker."""
    status: BrokerRegistrationStatus = Field(default_factory=BrokerRegistrationStatus)
    """The active controller's view of the broker."""
