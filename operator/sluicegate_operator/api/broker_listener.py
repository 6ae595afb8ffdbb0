"""BrokerListener: one port that all brokers of a cluster open for clients, and the Service in front of it."""

import re
from typing import ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.metadata import (
    AGE_COLUMN,
    CLUSTER_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    ClusterRef,
    Kind,
    PrinterColumn,
    Status,
)
from sluicegate_operator.api.rules import Model, Rule, TransitionRule, cluster_ref_stays

LISTENER_PATTERN = "^[A-Z][A-Z0-9_]{0,62}$"
RESERVED_NAMES = ("INTERNAL", "CONTROLLER", "REPLICATION")
"""INTERNAL joins brokers and operator, CONTROLLER is the controllers' own, REPLICATION is kept for later."""
RESERVED_PORTS = (9091, 9093, 9404)
"""INTERNAL, CONTROLLER, and /metrics with the probes."""

SERVICE_PATTERN = "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
RESERVED_SUFFIXES = "-(brokers|controllers(-[0-9])?)$"
API_SERVER_SERVICE = "kubernetes"

LISTENER_NAME_MESSAGE = (
    "must be upper-case letters, digits and '_', begin with a letter and have at most 63, for example EXTERNAL"
)


class BrokerListenerSpec(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.name.matches('{LISTENER_PATTERN}')",
            message=f"name {LISTENER_NAME_MESSAGE}",
            holds=lambda spec: re.fullmatch(LISTENER_PATTERN, spec.name) is not None,
            field="name",
        ),
        Rule(
            cel="!(self.name in ['INTERNAL', 'CONTROLLER', 'REPLICATION'])",
            message="INTERNAL, CONTROLLER and REPLICATION belong to the operator; choose another name",
            holds=lambda spec: spec.name not in RESERVED_NAMES,
            field="name",
        ),
        Rule(
            cel="!(self.port in [9091, 9093, 9404])",
            message="ports 9091, 9093 and 9404 belong to the operator; choose another port, for example 9094",
            holds=lambda spec: spec.port not in RESERVED_PORTS,
            field="port",
        ),
    )
    transitions: ClassVar = (
        TransitionRule(
            cel="self.name == oldSelf.name",
            message="the name of a listener cannot be changed: make a new BrokerListener and delete this one",
            holds=lambda old, new: old.name == new.name,
            field="name",
        ),
        cluster_ref_stays("make a new BrokerListener and delete this one"),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster whose brokers open this listener."""
    name: str = Field(min_length=1, max_length=63)
    """Kafka's name of the listener, upper-case; ConnectionQuota targets it by this name."""
    port: int = Field(ge=1024, le=65535)
    """The port that every broker opens, and the port of the Service."""
    protocol: Literal["PLAINTEXT"] = "PLAINTEXT"
    """Kafka's security protocol; only PLAINTEXT for now."""
    exposure: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Service. Clients are told pod addresses whatever the type. For NodePort and LoadBalancer the Service
    keeps client addresses (externalTrafficPolicy Local), so that limits of addresses hit the client."""


class BrokerListenerStatus(Status):
    addresses: tuple[str, ...] = Field(default=(), max_length=100)
    """host:port of this listener on each broker that is ready and says that it has it open."""
    bootstrap: str = Field(default="", max_length=270)
    """host:port for clients inside the Kubernetes cluster."""


class BrokerListener(Kind):
    """A port that all brokers of a cluster open for clients."""

    plural: ClassVar = "brokerlisteners"
    short_name: ClassVar = "bl"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Listener", json_path=".spec.name"),
        PrinterColumn(name="Port", json_path=".spec.port", type="integer"),
        PrinterColumn(name="Bootstrap", json_path=".status.bootstrap", priority=1),
        READY_COLUMN,
        REASON_COLUMN,
        AGE_COLUMN,
    )
    rules: ClassVar = (
        Rule(
            cel=f"self.metadata.name.matches('{SERVICE_PATTERN}')",
            message="the name of a BrokerListener must be at most 63 lower-case letters, digits and '-', begin with a"
            " letter and not end with '-': its Service has the same name",
            holds=lambda model: re.fullmatch(SERVICE_PATTERN, model.metadata.name) is not None,
        ),
        Rule(
            cel=f"!self.metadata.name.matches('{RESERVED_SUFFIXES}')",
            message="the name of a BrokerListener must not end with -brokers, -controllers or -controllers-0 to -9: the"
            " operator's own Services do",
            holds=lambda model: re.search(RESERVED_SUFFIXES, model.metadata.name) is None,
        ),
        Rule(
            cel=f"self.metadata.name != '{API_SERVER_SERVICE}'",
            message="kubernetes is the name of the API server's own Service; choose another name, for example"
            " shop-external",
            holds=lambda model: model.metadata.name != API_SERVER_SERVICE,
        ),
    )

    kind: Literal["BrokerListener"] = "BrokerListener"
    spec: BrokerListenerSpec
    """What the listener should be."""
    status: BrokerListenerStatus = Field(default_factory=BrokerListenerStatus)
    """What the operator last saw."""
