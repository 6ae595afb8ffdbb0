"""The listeners of a broker after its dynamic configuration overrides its file (KIP-226). Pure.

As in Apache Kafka, each advertised listener is open, and the listener for traffic between brokers keeps the address in
the file. A new listener needs an entry in listener.security.protocol.map (or a protocol's name), and the protocol of an
existing one does not change.

Two rules go beyond Kafka's. A listener's own address may change, which closes and reopens the listener. An omitted host
defaults to the one in the file for the listener, or for the inter-broker listener if the listener is new. So the stored
configuration stays valid wherever the broker starts the next time (decision 31). Any other host must be an address:
listeners are opened on the event loop, which must not wait for a name server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.config.declaring.endpoints import SASL, Endpoint, SecurityProtocol
from broker_runtime.config.declaring.listeners import advertised_of, check_ports, endpoints, protocols_of
from broker_runtime.config.in_force.settings import BrokerSettings
from broker_runtime.config.keys.broker import BrokerConfig, split_listener_prefix
from broker_runtime.errors import ConfigError

LISTENER_KEYS = (
    BrokerConfig.listeners.name,
    BrokerConfig.advertised_listeners.name,
    BrokerConfig.listener_security_protocol_map.name,
)


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of a broker, without the controller's: where each is opened, and the addresses that clients get."""

    opened: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(endpoint.listener for endpoint in self.opened)


def concerns_listeners(name: str) -> bool:
    """Return whether only the broker itself can check the key: it is about the broker's listeners or their TLS.

    The key's name may have a listener's prefix.
    """
    return name in LISTENER_KEYS or split_listener_prefix(name)[1].startswith("ssl.")


def listener_texts(own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the listener keys of a broker's dynamic configuration."""
    return {name: own[name] for name in LISTENER_KEYS if name in own}


def static_listeners(settings: BrokerSettings) -> Listeners:
    return Listeners(settings.client_listeners, settings.advertised)


def dynamic_listeners(settings: BrokerSettings, own: Mapping[str, str]) -> Listeners:
    """Return the listeners with the dynamic configuration `own`. Raises ConfigError if `own` violates a rule."""
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
    check_ports(opened)
    _check_sasl(opened, settings)
    _check_kept(opened, settings)
    _check_hosts(opened, settings)
    _check_protocols_known(opened, settings, protocols)
    if settings.inter_broker_listener not in {endpoint.listener for endpoint in advertised}:
        raise ConfigError(
            f"advertised.listeners: brokers connect to each other by {settings.inter_broker_listener}; include it"
        )
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
                f"listeners: {endpoint}: {endpoint.host} is not an address; use an address of this machine, or "
                "leave the host empty"
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


def _check_sasl(opened: Sequence[Endpoint], settings: BrokerSettings) -> None:
    """Check that the file has each SASL listener: only a start reads the keys of its mechanisms."""
    known = {endpoint.listener for endpoint in settings.listeners if endpoint.security_protocol in SASL}
    for endpoint in opened:
        if endpoint.security_protocol in SASL and endpoint.listener not in known:
            raise ConfigError(
                f"listeners: {endpoint} has the security protocol {endpoint.security_protocol.name} and cannot be "
                "added while the broker runs; add it to the properties file and restart the broker"
            )


def _check_kept(opened: Sequence[Endpoint], settings: BrokerSettings) -> None:
    """Check that the controller's and the inter-broker listener are unchanged: brokers and administrators use them."""
    fixed = {settings.inter_broker_listener, *settings.controller_listeners}
    for endpoint in settings.listeners:
        if endpoint.listener in fixed and endpoint not in opened:
            raise ConfigError(
                f"listeners: {endpoint} cannot be removed or changed while the broker runs, because the cluster "
                "itself uses it; change it in the properties file and restart the broker"
            )
    strangers = fixed - {endpoint.listener for endpoint in settings.listeners}
    for endpoint in opened:
        if endpoint.listener in strangers:
            raise ConfigError(
                f"listeners: {endpoint.listener} is the name of a controller's listener; use another name"
            )
