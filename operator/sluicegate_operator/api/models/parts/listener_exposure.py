"""How clients outside the Kubernetes cluster reach a listener: parts of a BrokerListener's spec."""

from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate_operator.api.schema.addresses import is_cidr
from sluicegate_operator.api.schema.rules import Model, Rule

BROKER = "{broker}"
"""Placeholder for the broker's id in advertisedHost."""
_HEX = "([0-9A-Fa-f.]|[{]broker[}])*"
HOST_PATTERN = f"^(([A-Za-z0-9.-]|[{{]broker[}}])+|{_HEX}:{_HEX}:([0-9A-Fa-f.:]|[{{]broker[}}])*)$"
"""A ':' is only valid in IPv6 addresses, with at least two: a port behind a name would become part of the name."""
CIDRS_MAX = 32

Cidr = Annotated[str, Field(min_length=1, max_length=43)]


class NodePorts(Model):
    """Ports on every Kubernetes node, from the API server's range (30000 to 32767 by default)."""

    rules: ClassVar = (
        Rule(
            cel="has(self.bootstrap) || has(self.firstBroker)",
            message="nodePorts must have bootstrap, firstBroker or both; without nodePorts the API server chooses the"
            " ports",
            allows=lambda ports: ports.bootstrap is not None or ports.first_broker is not None,
        ),
    )

    bootstrap: int | None = Field(default=None, ge=1, le=65535)
    """Port of the Service that leads to any broker."""
    first_broker: int | None = Field(default=None, ge=1, le=65535)
    """Port of broker 0; broker 1 has the next port, and so on."""


class ProxyProtocol(Model):
    rules: ClassVar = (
        Rule(
            cel="self.trusted.all(range, isCIDR(range))",
            message="proxyProtocol.trusted must be CIDR ranges, for example 10.0.0.0/8 or 192.0.2.7/32",
            allows=lambda proxy: all(is_cidr(trusted) for trusted in proxy.trusted),
            field="trusted",
        ),
    )

    trusted: tuple[Cidr, ...] = Field(min_length=1, max_length=CIDRS_MAX)
    """Address ranges of the load balancers. A connection from them must begin with the header of the PROXY protocol,
    version 2, and counts as a connection of the client that the header names. Connections from other addresses are
    refused."""
