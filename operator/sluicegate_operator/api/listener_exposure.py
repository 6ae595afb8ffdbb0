"""How clients outside of the Kubernetes cluster reach a listener: parts of a BrokerListener's spec."""

from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate_operator.api.addresses import is_cidr
from sluicegate_operator.api.rules import Model, Rule

BROKER = "{broker}"
"""In advertisedHost: the broker's id."""
_HEX = "([0-9A-Fa-f.]|[{]broker[}])*"
HOST_PATTERN = f"^(([A-Za-z0-9.-]|[{{]broker[}}])+|{_HEX}:{_HEX}:([0-9A-Fa-f.:]|[{{]broker[}}])*)$"
"""A ':' is for IPv6 only, where there are two and more: a port behind a name would become a part of it."""
CIDRS_MAX = 32

Cidr = Annotated[str, Field(min_length=1, max_length=43)]


class NodePorts(Model):
    """Ports on every node, from the API server's range (30000 to 32767 unless it was started with another)."""

    rules: ClassVar = (
        Rule(
            cel="has(self.bootstrap) || has(self.firstBroker)",
            message="nodePorts must say bootstrap, firstBroker or both; without it the API server chooses",
            holds=lambda ports: ports.bootstrap is not None or ports.first_broker is not None,
        ),
    )

    bootstrap: int | None = Field(default=None, ge=1, le=65535)
    """Of the Service that leads to any broker."""
    first_broker: int | None = Field(default=None, ge=1, le=65535)
    """Of broker 0; broker 1 has the next one, and so on."""


class ProxyProtocol(Model):
    rules: ClassVar = (
        Rule(
            cel="self.trusted.all(range, isCIDR(range))",
            message="proxyProtocol.trusted must be ranges of addresses, for example 10.0.0.0/8 or 192.0.2.7/32",
            holds=lambda proxy: all(is_cidr(trusted) for trusted in proxy.trusted),
            field="trusted",
        ),
    )

    trusted: tuple[Cidr, ...] = Field(min_length=1, max_length=CIDRS_MAX)
    """Where the load balancers are. A connection from there must begin with the PROXY protocol's version 2, and is then
    one of the client that it names; one from elsewhere is refused."""
