"""The keys, certificates and contexts of this node's listeners with TLS, and of its connections to others. Shell."""

import socket
from collections.abc import Mapping

from broker_runtime.config import BrokerSettings, SecurityProtocol, ServerAddress, Value
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.network.sockets.tls_transport import TlsTransport
from broker_runtime.network.sockets.transport import TransportFactory
from broker_runtime.node.tls_settings_of import tls_settings_of
from broker_runtime.security.principal import Principal
from broker_runtime.security.tls.material import TlsMaterial, load


class TlsInForce:
    """Owns what is loaded of each listener; new connections use the newest. Nothing is durable."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._values: Mapping[str, Value] = settings.values
        self._loaded: dict[str, TlsMaterial] = {}
        """By the listener's name in upper case."""
        self._protocols: dict[str, SecurityProtocol] = {}

    def accepting(self, listener: str, protocol: SecurityProtocol) -> TransportFactory:
        """Return the transports of accepted sockets. Raises ConfigError if the settings cannot be used."""
        self._load(listener, protocol, serves=True)
        authenticates = protocol is SecurityProtocol.SSL

        def wrap(accepted: socket.socket) -> TlsTransport:
            loaded = self._loaded[listener]
            assert loaded.server is not None
            return TlsTransport(accepted, loaded.server, loaded.principal_of if authenticates else _found_by_sasl)

        return wrap

    def dialling(self, listener: str, address: ServerAddress) -> TransportFactory:
        """Return the transports of connections to another node, by a listener of it. Raises ConfigError."""
        if listener not in self._loaded:
            self._load(listener, address.security_protocol, serves=False)
        return lambda connected: TlsTransport(
            connected, self._loaded[listener].client, _found_by_sasl, server_name=address.host
        )

    def _load(self, listener: str, protocol: SecurityProtocol, *, serves: bool) -> None:
        self._protocols[listener] = protocol
        self._loaded[listener] = load(tls_settings_of(self._values, listener, protocol), serves=serves)

    def configure(self, effective: EffectiveConfig) -> None:
        """Use changed values for new connections."""
        self._values = effective.values


def _found_by_sasl(certificate: bytes | None) -> Principal | None:
    del certificate
    return None
