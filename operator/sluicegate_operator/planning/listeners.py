"""Which listeners a broker has open, by its own word: its configuration key `listeners`, which is fixed while it runs.

A broker binds all of them before it registers, so one that serves clients has them open.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.api.broker_listener import BrokerListener

LISTENERS = "listeners"
_ENTRY = re.compile(r"^(?P<name>[^:/]+)://(?P<host>.*):(?P<port>\d+)$")


def listener_ports(value: str | None) -> dict[str, int]:
    """By name. `value` is as Kafka has it: `INTERNAL://10.0.0.1:9091,EXTERNAL://[::1]:9094`."""
    entries = (_ENTRY.match(entry.strip()) for entry in (value or "").split(","))
    return {entry["name"].upper(): int(entry["port"]) for entry in entries if entry is not None}


@dataclass(frozen=True, slots=True)
class ServingBroker:
    """A broker that lets clients in. `ports` of its listeners by name; None while it has not said."""

    id: int
    host: str
    ports: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ListenerSeen:
    """`addresses`: where it is open. Of the brokers that serve, `lacking` run without it until they are restarted, and
    `unknown` have not said."""

    addresses: tuple[str, ...] = ()
    lacking: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()


def listener_seen(listener: BrokerListener, brokers: Sequence[ServingBroker]) -> ListenerSeen:
    name, port = listener.spec.name, listener.spec.port
    told = {broker.id: broker.ports for broker in brokers if broker.ports is not None}
    return ListenerSeen(
        addresses=tuple(f"{b.host}:{port}" for b in brokers if b.id in told and told[b.id].get(name) == port),
        lacking=tuple(sorted(id_ for id_, ports in told.items() if ports.get(name) != port)),
        unknown=tuple(sorted(broker.id for broker in brokers if broker.ports is None)),
    )
