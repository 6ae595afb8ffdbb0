"""Plan which listeners each broker should have open, and the dynamic configuration that opens them. Pure.

A stored value contains no pod address: an omitted host means the broker's own host, which may change at its next start
(decision 31). For comparisons, a broker's own host is inserted where the reported value omits it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.planning.layout.cluster_layout import (
    INTERNAL,
    PLAINTEXT,
    PROTOCOLS,
    ClusterLayout,
    networks,
    protocol_map,
    trusted_key,
)
from sluicegate_operator.planning.layout.listener_security import security_files, security_properties
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision
from sluicegate_operator.planning.listeners.exposure import Address

LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
_ENTRY = re.compile(r"^(?P<name>[^:/]+)://(?P<host>.*):(?P<port>\d+)$")


def listener_addresses(value: str | None) -> dict[str, Address]:
    """Return the addresses in `value` by listener name.

    `value` is a text like `INTERNAL://10.0.0.1:9091,EXTERNAL://[::1]:9094`.
    """
    entries = (_ENTRY.match(entry.strip()) for entry in (value or "").split(","))
    return {
        entry["name"].upper(): Address(entry["host"].strip("[]"), int(entry["port"]))
        for entry in entries
        if entry is not None
    }


def listener_ports(value: str | None) -> dict[str, int]:
    return {name: address.port for name, address in listener_addresses(value).items()}


@dataclass(frozen=True, slots=True)
class OpenListener:
    """An open listener.

    `advertised`: its address for clients; `trusted`: the addresses of proxies whose PROXY header is believed.
    """

    port: int
    advertised: Address
    trusted: tuple[str, ...] = ()
    protocol: str = PLAINTEXT


OpenListeners = Mapping[str, OpenListener]
"""The open listeners of a broker by name in Kafka, including INTERNAL."""


@dataclass(frozen=True, slots=True)
class ListenersChange:
    """A change of one broker's listeners: the keys to set and to reset in one request."""

    set: Mapping[str, str]
    delete: tuple[str, ...] = ()


def asked_keys(names: Sequence[str]) -> list[str]:
    """Return the keys to read from a broker; `names` are the wanted listeners."""
    return [LISTENERS, ADVERTISED, PROTOCOLS, *(trusted_key(name) for name in names)]


def open_listeners(configs: Mapping[str, str | None], host: str) -> dict[str, OpenListener]:
    """Return the open listeners from a broker's answer for `asked_keys`; `host` is the broker's own address."""
    told = listener_addresses(configs.get(ADVERTISED))
    pairs = (entry.strip().partition(":") for entry in (configs.get(PROTOCOLS) or "").split(","))
    protocols = {name.upper(): protocol.upper() for name, _, protocol in pairs}
    found = {}
    for name, bound in listener_addresses(configs.get(LISTENERS)).items():
        shown = told.get(name, bound)
        ranges = (configs.get(trusted_key(name)) or "").split(",")
        found[name] = OpenListener(
            bound.port,
            Address(shown.host or host, shown.port),
            networks(text.strip() for text in ranges if text.strip()),
            protocols.get(name, PLAINTEXT),
        )
    return found


def wanted_listeners(
    layout: ClusterLayout,
    listeners: Mapping[str, BrokerListener],
    host: str,
    told: Mapping[str, Address],
    now: OpenListeners,
) -> dict[str, OpenListener]:
    """Return the listeners that the broker at `host` should have.

    `listeners`: by metadata.name. `told`: by Kafka's name, the known addresses to advertise. A listener whose address
    is unknown keeps its present one.
    """
    wanted = {}
    for port in layout.listeners:
        proxy = listeners[port.resource].spec.proxy_protocol if port.resource is not None else None
        own = now[port.name].advertised if port.name in now and port.resource is not None else Address(host, port.port)
        wanted[port.name] = OpenListener(
            port.port,
            told.get(port.name, own),
            networks(proxy.trusted) if proxy is not None else (),
            port.protocol,
        )
    return wanted


def differing(now: OpenListeners, wanted: OpenListeners) -> tuple[str, ...]:
    """Return the names of listeners that differ, never INTERNAL: the properties file alone defines that listener."""
    names = {*now, *wanted} - {INTERNAL}
    return tuple(sorted(name for name in names if now.get(name) != wanted.get(name)))


def change_to(now: OpenListeners, wanted: OpenListeners, host: str) -> ListenersChange | None:
    """Return the change from `now` to `wanted`, or None if nothing differs.

    Ports, addresses and trusted proxies change together: a listener is never open without its PROXY protocol.
    """
    names = differing(now, wanted)
    if not names:
        return None
    values: dict[str, str] = {}
    if any(name not in now or name not in wanted or now[name].port != wanted[name].port for name in names):
        values[LISTENERS] = ",".join(f"{name}://:{listener.port}" for name, listener in wanted.items())
        values[PROTOCOLS] = protocol_map({name: listener.protocol for name, listener in wanted.items()})
    values[ADVERTISED] = ",".join(_entry(name, listener.advertised, host) for name, listener in wanted.items())
    values |= {
        trusted_key(name): ",".join(wanted[name].trusted)
        for name in names
        if name in wanted and wanted[name].trusted != (now[name].trusted if name in now else ())
    }
    # Deleted even if it was not read: a later listener of that name must start without it.
    gone = tuple(trusted_key(name) for name in names if name not in wanted)
    return ListenersChange(values, gone)


def _entry(name: str, address: Address, host: str) -> str:
    if address.host == host:
        return f"{name}://:{address.port}"
    return f"{name}://{address}"


def one_by_one(now: OpenListeners, wanted: OpenListeners) -> tuple[str, ...]:
    """Return the order of changes of single listeners after a combined change was refused: removals first."""
    return tuple(sorted(differing(now, wanted), key=lambda name: (name in wanted, name)))


def with_one(now: OpenListeners, wanted: OpenListeners, name: str) -> dict[str, OpenListener]:
    """Return `now` with only the listener `name` changed to its wanted state."""
    others = {other: listener for other, listener in now.items() if other != name}
    return {**others, name: wanted[name]} if name in wanted else others


def after_restart(
    listeners: Mapping[str, BrokerListener], revision: NodeRevision | None, now: OpenListeners
) -> frozenset[str]:
    """Return Kafka's names of secured listeners that a broker with this revision can open only after its restart."""
    known = revision.keys if revision is not None else {}
    return frozenset(
        one.spec.name
        for one in listeners.values()
        if one.spec.name not in now and not {*security_properties([one]), *security_files([one])} <= known.keys()
    )


@dataclass(frozen=True, slots=True)
class ListenerSeen:
    """The state of one listener on the brokers.

    - `told`: the advertised address, by id of the brokers that have the listener open as wanted.
    - `lacking`: brokers that serve clients and do not have it open as wanted yet.
    - `unknown`: brokers that serve clients and have not answered.
    - `refused`: brokers that refuse it, with their message.
    - `waits`: see exposure.
    - `restarts`: brokers that open it only after their restart, when they read its certificates and credentials.
    """

    told: Mapping[int, Address] = field(default_factory=dict)
    lacking: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()
    restarts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A broker that admits clients.

    `now` and `wanted` are its listeners; `now` is None until it has answered. By listener, in Kafka's name: `refused`
    is the broker's message, `waits` the listener's obstacle. `restarts`: listeners that need a restart first.
    """

    id: int
    now: OpenListeners | None
    wanted: OpenListeners
    refused: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)
    restarts: frozenset[str] = frozenset()

    @property
    def settled(self) -> bool:
        return self.now is not None and not differing(self.now, self.wanted)

    @property
    def applying(self) -> bool:
        """Return whether a listener that the broker has not refused may open in a moment."""
        return self.now is None or bool(set(differing(self.now, self.wanted)) - self.refused.keys() - self.restarts)


def listener_seen(name: str, brokers: Sequence[BrokerSeen]) -> ListenerSeen:
    """Return the state of one listener on the brokers. `name` is the name in Kafka."""
    told = {b.id: b.now[name].advertised for b in brokers if b.now is not None and _is_open(b, name)}
    return ListenerSeen(
        told=told,
        lacking=tuple(
            sorted(b.id for b in brokers if b.now is not None and b.id not in told and name not in b.restarts)
        ),
        unknown=tuple(sorted(broker.id for broker in brokers if broker.now is None)),
        refused={b.id: b.refused[name] for b in brokers if name in b.refused},
        waits=tuple(b.waits[name] for b in brokers if name in b.waits),
        restarts=tuple(sorted(b.id for b in brokers if name in b.restarts and b.id not in told)),
    )


def _is_open(broker: BrokerSeen, name: str) -> bool:
    now = broker.now or {}
    return name in now and now[name] == broker.wanted.get(name)
