"""Imports TLS when a listener or a connection first needs it (decisions 45 and 55)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.config import BrokerSettings, SecurityProtocol, ServerAddress, Value, split_listener_prefix
from broker_runtime.config.declaring.endpoints import ENCRYPTED
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.errors import ConfigError
from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.network.sockets.transport import TransportFactory

if TYPE_CHECKING:
    from broker_runtime.node.tls.tls_in_force import TlsInForce

_TLS = "broker_runtime.node.tls.tls_in_force"
_KEYS = "ssl."


class TlsOnDemand:
    """The TLS of one role of a process. Nothing of TLS is imported until it is needed."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._effective: EffectiveConfig | None = None
        self._in_force: TlsInForce | None = None

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each configuration and file that is not in force."""
        return [] if self._in_force is None else self._in_force.problems

    def accepting(self, listener: str, protocol: SecurityProtocol) -> TransportFactory:
        """Return the factory of transports for a listener's sockets.

        Raises ConfigError if the listener's settings cannot be used.
        """
        return self._imported().accepting(listener, protocol)

    def dialling(self, listener: str) -> Callable[[ServerAddress], TransportFactory]:
        """Return a function from an address of this listener to the factory of its transports.

        That function raises OSError.
        """
        return partial(self._dialling, listener)

    def _dialling(self, listener: str, address: ServerAddress) -> TransportFactory:
        try:
            return self._imported().dialling(listener, address)
        except ConfigError as error:
            raise OSError(str(error)) from error

    async def check(self, own: Mapping[str, str], opened: Collection[str]) -> None:
        """Check a dynamic configuration before it is stored. Raises ConfigError."""
        after = effective_config(self._settings, {}, own)
        if any(endpoint.security_protocol in ENCRYPTED for endpoint in after.listeners.opened):
            await asyncio.to_thread(self._imported().check, after, frozenset(opened))

    def configure(self, effective: EffectiveConfig) -> None:
        """Use the changed TLS settings of listeners for new connections."""
        self._effective = effective
        if self._in_force is not None:
            self._in_force.configure(effective)

    def is_configured(self, own: Mapping[str, str]) -> bool:
        """Whether the values of the dynamic configuration `own` have been passed to `configure`."""
        now = self._settings.values if self._effective is None else self._effective.values
        return _of_tls(now) == _of_tls(effective_config(self._settings, {}, own).values)

    async def watch(self) -> None:
        """Load files of keys and certificates again when they change, until cancelled."""
        interval_s = self._settings.config.sluicegate_tls_files_check_interval_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            if self._in_force is not None:
                await self._in_force.check_files()

    def report(self) -> Mapping[str, Mapping[str, object]]:
        """Return a report about the keys and certificates in force on each used listener, by the listener's name."""
        return {} if self._in_force is None else self._in_force.report()

    def collect(self) -> Iterable[Sample]:
        return () if self._in_force is None else self._in_force.collect()

    def _imported(self) -> "TlsInForce":
        if self._in_force is None:
            made: TlsInForce = import_module(_TLS).TlsInForce(self._settings)
            if self._effective is not None:
                made.configure(self._effective)
            self._in_force = made
        return self._in_force


def _of_tls(values: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: value for name, value in values.items() if split_listener_prefix(name)[1].startswith(_KEYS)}
