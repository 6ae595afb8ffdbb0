"""The listeners of a broker when its dynamic configuration is laid over its file (KIP-226). Pure.

As in Apache Kafka: each advertised listener is opened, the one that brokers use between them stays as the file has it,
a listener that comes to be is named by listener.security.protocol.map (or is called like a protocol), and the protocol
of one that is there does not change. Beyond: a listener's own address may change, which closes it and opens it anew;
and a host that is left out is the one that the file has for the listener, or for that of brokers where the listener is
new, so that what is stored holds wherever the broker starts the next time (decision 31). Another host has to be an
address: listeners are opened on the event loop, which must not wait for a name server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from broker_runtime.config.addresses import canonical_address
from broker_runtime.config.broker import BrokerConfig
from broker_runtime.config.endpoints import Endpoint, SecurityProtocol
from broker_runtime.config.listeners import advertised_of, check_ports, check_served, endpoints, protocols_of
from broker_runtime.config.settings import BrokerSettings
from broker_runtime.errors import ConfigError

LISTENER_KEYS = (
    BrokerConfig.listeners.name,
    BrokerConfig.advertised_listeners.name,
    BrokerConfig.listener_security_protocol_map.name,
)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Of a broker, without the controller's: where each is opened, and what clients are told of some."""

    opened: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(endpoint.listener for endpoint in self.opened)


def listener_texts(own: Mapping[str, str]) -> Mapping[str, str]:
    """The part of a broker's dynamic configuration that is about its listeners."""
    return {name: own[name] for name in LISTENER_KEYS if name in own}


def static_listeners(settings: BrokerSettings) -> Listeners:
    return Listeners(settings.client_listeners, settings.advertised)


def dynamic_listeners(settings: BrokerSettings, own: Mapping[str, str]) -> Listeners:
    """`own` is the broker's dynamic configuration. Raises ConfigError when it breaks a rule."""
    texts = listener_texts(own)
    if not texts:
        return static_listeners(settings)
    typed = {name: BrokerConfig.KEYS[name].parse(text) for name, text in texts.items()}
    config = settings.config if not typed else BrokerConfig.from_values({**settings.values, **typed})
    protocols = protocols_of(config.listener_security_protocol_map or ())
    named = endpoints(config.listeners, LISTENER_KEYS[0], protocols)
    opened = _completed(named, settings.listeners, settings)
    told = advertised_of(config.advertised_listeners, opened, settings.controller_listeners, protocols)
    advertised = _completed(told, settings.advertised, settings)
    check_served(opened)
    check_ports(opened)
    _check_kept(opened, settings)
    _check_hosts(opened, settings)
    _check_protocols_known(opened, settings, protocols)
    if settings.inter_broker_listener not in {endpoint.listener for endpoint in advertised}:
        raise ConfigError(f"advertised.listeners: brokers use {settings.inter_broker_listener} between them; name it")
    clients = tuple(endpoint for endpoint in opened if endpoint.listener not in settings.controller_listeners)
    return Listeners(clients, advertised)


def _completed(
    found: Sequence[Endpoint], of_file: Sequence[Endpoint], settings: BrokerSettings
) -> tuple[Endpoint, ...]:
    hosts = {endpoint.listener: endpoint.host for endpoint in of_file}
    usual = hosts.get(settings.inter_broker_listener, "")
    return tuple(replace(e, host=e.host or hosts.get(e.listener, usual)) for e in found)


def _check_hosts(opened: Sequence[Endpoint], settings: BrokerSettings) -> None:
    known = {endpoint.host for endpoint in settings.listeners}
    for endpoint in opened:
        if endpoint.host not in known and canonical_address(endpoint.host) is None:
            raise ConfigError(
                f"listeners: {endpoint}: {endpoint.host} is no address; name one of this machine, or leave it out"
            )


def _check_protocols_known(
    opened: Sequence[Endpoint], settings: BrokerSettings, protocols: Mapping[str, SecurityProtocol]
) -> None:
    known = {*protocols, *SecurityProtocol.__members__, *(endpoint.listener for endpoint in settings.listeners)}
    for endpoint in opened:
        if endpoint.listener not in known:
            raise ConfigError(
                f"listeners: the security protocol of {endpoint.listener} is not known; add"
                f" {endpoint.listener}:PLAINTEXT to listener.security.protocol.map"
            )


def _check_kept(opened: Sequence[Endpoint], settings: BrokerSettings) -> None:
    """The controller's listeners, and the one that brokers and whoever administers them come by."""
    fixed = {settings.inter_broker_listener, *settings.controller_listeners}
    for endpoint in settings.listeners:
        if endpoint.listener in fixed and endpoint not in opened:
            raise ConfigError(
                f"listeners: {endpoint} cannot be removed or changed while the broker runs, as the cluster itself uses"
                " it; change it in the properties file, and restart"
            )
    strangers = fixed - {endpoint.listener for endpoint in settings.listeners}
    for endpoint in opened:
        if endpoint.listener in strangers:
            raise ConfigError(f"listeners: {endpoint.listener} is a name of controllers' listeners; use another one")
