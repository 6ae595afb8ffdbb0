"""Imports TLS when a listener or a connection first needs it (decisions 45 and 55)."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.config import BrokerSettings, SecurityProtocol, ServerAddress
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.errors import ConfigError
from broker_runtime.network.sockets.transport import TransportFactory

if TYPE_CHECKING:
    from broker_runtime.node.tls_in_force import TlsInForce

_TLS = "broker_runtime.node.tls_in_force"


class TlsOnDemand:
    """The TLS of one process. Until it is needed, nothing of it is imported."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._effective: EffectiveConfig | None = None
        self.in_force: TlsInForce | None = None
        """None until TLS is needed."""

    def accepting(self, listener: str, protocol: SecurityProtocol) -> TransportFactory:
        """Return the transports of a listener. Raises ConfigError if its settings cannot be used."""
        return self._imported().accepting(listener, protocol)

    def dialling(self, listener: str) -> Callable[[ServerAddress], TransportFactory]:
        """Return what makes the transports of connections to this listener of other nodes; it raises OSError."""
        return partial(self._dialling, listener)

    def _dialling(self, listener: str, address: ServerAddress) -> TransportFactory:
        try:
            return self._imported().dialling(listener, address)
        except ConfigError as error:
            raise OSError(str(error)) from error

    def configure(self, effective: EffectiveConfig) -> None:
        """Use changed values for new connections."""
        self._effective = effective
        if self.in_force is not None:
            self.in_force.configure(effective)

    def _imported(self) -> "TlsInForce":
        if self.in_force is None:
            made: TlsInForce = import_module(_TLS).TlsInForce(self._settings)
            if self._effective is not None:
                made.configure(self._effective)
            self.in_force = made
        return self.in_force
