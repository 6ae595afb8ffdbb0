"""BrokerListener: a port that all brokers of a cluster open for clients, and the Service in front of it."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.listener_exposure import (
    BROKER,
    CIDRS_MAX,
    HOST_PATTERN,
    Cidr,
    NodePorts,
    ProxyProtocol,
)
from sluicegate_operator.api.models.parts.listener_security import ListenerAuthentication, ListenerTls
from sluicegate_operator.api.schema.addresses import is_cidr
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, Rule, TransitionRule, cluster_ref_stays

LISTENER_PATTERN = "^[A-Z][A-Z0-9_]{0,62}$"
RESERVED_NAMES = ("INTERNAL", "CONTROLLER", "REPLICATION")
"""INTERNAL connects brokers and operator, CONTROLLER belongs to the controllers, REPLICATION is reserved."""
RESERVED_PORTS = (9091, 9093, 9404)
"""The ports of INTERNAL, of CONTROLLER, and of /metrics with the probes."""

SERVICE_PATTERN = "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
RESERVED_SUFFIXES = "-(brokers|controllers(-[0-9])?)$"
API_SERVER_SERVICE = "kubernetes"
EXPOSED_NAME_MAX = 60
"""The maximum length of a Service's name, minus two digits and a '-'."""

LISTENER_NAME_MESSAGE = (
    "must be at most 63 upper-case letters, digits and '_', and begin with a letter, for example EXTERNAL"
)


class BrokerListenerSpec(Model):
    """One listener for clients on the brokers of a cluster: its port, its security, and how clients reach it."""

    rules: ClassVar = (
        Rule(
            cel=f"self.name.matches('{LISTENER_PATTERN}')",
            message=f"name {LISTENER_NAME_MESSAGE}",
            allows=lambda spec: re.fullmatch(LISTENER_PATTERN, spec.name) is not None,
            field="name",
        ),
        Rule(
            cel="!(self.name in ['INTERNAL', 'CONTROLLER', 'REPLICATION'])",
            message="INTERNAL, CONTROLLER and REPLICATION are reserved for the operator; choose another name",
            allows=lambda spec: spec.name not in RESERVED_NAMES,
            field="name",
        ),
        Rule(
            cel="!(self.port in [9091, 9093, 9404])",
            message="ports 9091, 9093 and 9404 are reserved for the operator; choose another port, for example 9094",
            allows=lambda spec: spec.port not in RESERVED_PORTS,
            field="port",
        ),
        Rule(
            cel=f"!has(self.advertisedHost) || self.advertisedHost.matches('{HOST_PATTERN}')",
            message="advertisedHost must be a host name or an address without a port; {broker} is replaced by the id"
            " of a broker, for example in broker-{broker}.kafka.example.org",
            allows=lambda spec: (
                spec.advertised_host is None or re.fullmatch(HOST_PATTERN, spec.advertised_host) is not None
            ),
            field="advertisedHost",
        ),
        Rule(
            cel="!has(self.advertisedHost) || self.exposure == 'NodePort' || self.advertisedHost.contains('{broker}')",
            message="advertisedHost must contain {broker}, for example broker-{broker}.kafka.example.org: brokers have"
            " different ports only with exposure NodePort",
            allows=lambda spec: (
                spec.advertised_host is None or spec.exposure == "NodePort" or BROKER in spec.advertised_host
            ),
            field="advertisedHost",
        ),
        Rule(
            cel="!has(self.nodePorts) || self.exposure == 'NodePort'",
            message="nodePorts is only for exposure NodePort; remove it, or change exposure",
            allows=lambda spec: spec.node_ports is None or spec.exposure == "NodePort",
            field="nodePorts",
        ),
        Rule(
            cel="!has(self.externalTrafficPolicy) || self.exposure != 'ClusterIP'",
            message="externalTrafficPolicy is only for exposure NodePort and LoadBalancer; remove it, or change"
            " exposure",
            allows=lambda spec: spec.external_traffic_policy is None or spec.exposure != "ClusterIP",
            field="externalTrafficPolicy",
        ),
        Rule(
            cel="!has(self.loadBalancerClass) || self.exposure == 'LoadBalancer'",
            message="loadBalancerClass is only for exposure LoadBalancer; remove it, or change exposure",
            allows=lambda spec: spec.load_balancer_class is None or spec.exposure == "LoadBalancer",
            field="loadBalancerClass",
        ),
        Rule(
            cel="!has(self.loadBalancerSourceRanges) || self.exposure == 'LoadBalancer'",
            message="loadBalancerSourceRanges is only for exposure LoadBalancer; remove it, or change exposure",
            allows=lambda spec: spec.load_balancer_source_ranges is None or spec.exposure == "LoadBalancer",
            field="loadBalancerSourceRanges",
        ),
        Rule(
            cel="!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.all(range, isCIDR(range))",
            message="loadBalancerSourceRanges must be CIDR ranges, for example 203.0.113.0/24",
            allows=lambda spec: all(is_cidr(range_) for range_ in spec.load_balancer_source_ranges or ()),
            field="loadBalancerSourceRanges",
        ),
        Rule(
            cel="!has(self.authentication) || self.authentication.type == 'scram-sha-512' || has(self.tls)",
            message="authentication.type tls, oauth and serviceAccount need tls: a client presents a certificate only"
            " with TLS, and without TLS everybody on the network could read its token; set tls.secretName",
            allows=lambda spec: (
                spec.authentication is None or spec.authentication.type == "scram-sha-512" or spec.tls is not None
            ),
            field="authentication",
        ),
        Rule(
            cel="!has(self.authentication) || self.authentication.type != 'tls' || !has(self.tls)"
            " || !has(self.tls.clientAuth) || self.tls.clientAuth != 'None'",
            message="authentication.type tls needs client certificates: remove tls.clientAuth, or set it to Required"
            " or Requested",
            allows=lambda spec: (
                spec.authentication is None
                or spec.authentication.type != "tls"
                or spec.tls is None
                or spec.tls.client_auth != "None"
            ),
            field="authentication",
        ),
    )
    transitions: ClassVar = (
        TransitionRule(
            cel="self.name == oldSelf.name",
            message="the name of a listener cannot be changed: create a new BrokerListener and delete this one",
            allows=lambda old, new: old.name == new.name,
            field="name",
        ),
        cluster_ref_stays("create a new BrokerListener and delete this one"),
        TransitionRule(
            cel="has(self.tls) == has(oldSelf.tls) && (has(self.authentication) && self.authentication.type != 'tls')"
            " == (has(oldSelf.authentication) && oldSelf.authentication.type != 'tls')",
            message="tls and the authentication of users cannot be added or removed, because Kafka cannot change the"
            " security protocol of a listener: create a new BrokerListener with another name and port, move the"
            " clients, and delete this one",
            allows=lambda old, new: new.security_protocol == old.security_protocol,
        ),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster whose brokers open this listener."""
    name: str = Field(min_length=1, max_length=63)
    """Kafka's name of the listener, in upper case; ConnectionQuota targets it by this name."""
    port: int = Field(ge=1024, le=65535)
    """The port that every broker opens, and the port of the Service."""
    protocol: Literal["PLAINTEXT"] | None = None
    """Not used any more: the security protocol follows from tls and authentication, and status.protocol shows it."""
    tls: ListenerTls | None = None
    """Encrypts connections with TLS. Adding or removing it rolls the brokers; a renewed certificate does not."""
    authentication: ListenerAuthentication | None = None
    """How clients of this listener authenticate; all clients are User:ANONYMOUS if absent. A change rolls the
    brokers."""
    exposure: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Services. With ClusterIP there is one Service, and brokers advertise the addresses of their pods.
    With NodePort and LoadBalancer, each broker also has its own Service, and advertises that Service's address and
    port: those of the broker's Kubernetes node, or of the load balancer."""
    advertised_host: str | None = Field(default=None, min_length=1, max_length=253)
    """Host that brokers advertise to clients instead of that address: a name or an address, with {broker} for the
    broker's id. The port stays that of the broker's Service."""
    node_ports: NodePorts | None = None
    """Ports of the Services on every Kubernetes node; chosen by the API server if absent."""
    external_traffic_policy: Literal["Local", "Cluster"] | None = None
    """With Local, which is the default, nodes forward only connections for a broker of their own, and the broker sees
    the client's address. With Cluster the broker sees a node's address, so that limits of addresses apply to all
    clients behind that node."""
    load_balancer_class: str | None = Field(default=None, min_length=1, max_length=253)
    """Class of the load balancers; the default of the Kubernetes cluster if absent."""
    load_balancer_source_ranges: tuple[Cidr, ...] | None = Field(default=None, min_length=1, max_length=CIDRS_MAX)
    """Address ranges from which load balancers accept connections; all addresses if absent."""
    annotations: dict[str, Annotated[str, Field(max_length=1024)]] | None = Field(default=None, max_length=32)
    """Annotations of the Services, for controllers that create load balancers or DNS records."""
    proxy_protocol: ProxyProtocol | None = None
    """For a load balancer that hides the addresses of clients and sends them in the PROXY protocol, version 2."""

    @property
    def is_exposed(self) -> bool:
        """Whether each broker has its own Service."""
        return self.exposure != "ClusterIP"

    @property
    def uses_sasl(self) -> bool:
        return self.authentication is not None and self.authentication.type != "tls"

    @property
    def security_protocol(self) -> str:
        """Kafka's name of the security protocol."""
        if self.uses_sasl:
            return "SASL_SSL" if self.tls is not None else "SASL_PLAINTEXT"
        return "SSL" if self.tls is not None else "PLAINTEXT"

    @property
    def client_auth(self) -> str:
        """Kafka's ssl.client.auth."""
        if self.tls is None:
            return "none"
        by_certificate = self.authentication is not None and self.authentication.type == "tls"
        return (self.tls.client_auth or ("Required" if by_certificate else "None")).lower()


class BrokerListenerStatus(Status):
    protocol: str = Field(default="", max_length=32)
    """Kafka's security protocol of the listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    tls_secret: str = Field(default="", max_length=253)
    """Name of the operator's Secret with the certificates that brokers mount, after they were checked. Brokers open a
    listener with TLS only with it."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that have the listener open as specified and advertise an address for it, of those that should: 3/3."""
    addresses: tuple[str, ...] = Field(default=(), max_length=100)
    """host:port that each ready broker with this listener open advertises to clients."""
    bootstrap: str = Field(default="", max_length=270)
    """host:port for the first connection of clients: inside the Kubernetes cluster, or outside if exposure provides
    it."""


class BrokerListener(Resource):
    """A port that all brokers of a cluster open for clients."""

    plural: ClassVar = "brokerlisteners"
    short_name: ClassVar = "bl"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Listener", json_path=".spec.name"),
        PrinterColumn(name="Port", json_path=".spec.port", type="integer"),
        PrinterColumn(name="Protocol", json_path=".status.protocol"),
        PrinterColumn(name="Brokers", json_path=".status.brokers"),
        PrinterColumn(name="Bootstrap", json_path=".status.bootstrap"),
        *CONDITION_COLUMNS,
    )
    rules: ClassVar = (
        Rule(
            cel=f"self.metadata.name.matches('{SERVICE_PATTERN}')",
            message="the name of a BrokerListener must be at most 63 lower-case letters, digits and '-', begin with a"
            " letter and not end with '-', because its Service has the same name",
            allows=lambda model: re.fullmatch(SERVICE_PATTERN, model.metadata.name) is not None,
        ),
        Rule(
            cel=f"!self.metadata.name.matches('{RESERVED_SUFFIXES}')",
            message="the name of a BrokerListener must not end with -brokers, -controllers or -controllers-0 to -9,"
            " because the names of the operator's own Services do",
            allows=lambda model: re.search(RESERVED_SUFFIXES, model.metadata.name) is None,
        ),
        Rule(
            cel=f"self.metadata.name != '{API_SERVER_SERVICE}'",
            message="kubernetes is the name of the API server's Service; choose another name, for example"
            " shop-external",
            allows=lambda model: model.metadata.name != API_SERVER_SERVICE,
        ),
        Rule(
            cel=f"self.spec.exposure == 'ClusterIP' || self.metadata.name.size() <= {EXPOSED_NAME_MAX}",
            message=f"the name of a BrokerListener with exposure must have at most {EXPOSED_NAME_MAX} characters,"
            " because the Service of each broker has this name with the broker's id appended",
            allows=lambda model: not model.spec.is_exposed or len(model.metadata.name) <= EXPOSED_NAME_MAX,
        ),
    )

    kind: Literal["BrokerListener"] = "BrokerListener"
    spec: BrokerListenerSpec
    """The desired state of the listener."""
    status: BrokerListenerStatus = Field(default_factory=BrokerListenerStatus)
    """The state of the listener that the operator last observed."""
