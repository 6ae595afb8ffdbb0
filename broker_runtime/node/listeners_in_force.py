"""Open this broker's listeners: those of its properties file first, then those of its dynamic configuration (KIP-226).

A change has two steps. The broker that receives the request opens new listeners before the controller stores the
change: a taken port rejects it. The stored change then arrives as metadata, and is put in force: removed listeners are
closed, new ones accept. At a start there is only the second step; a listener that cannot be opened is reported, and
retried.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from broker_runtime.config import BrokerSettings, Endpoint, SecurityProtocol
from broker_runtime.config.in_force.dynamic_listeners import Listeners, dynamic_listeners, static_listeners
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.network.sockets.listening import ListenerBindError

log = logging.getLogger(__name__)


class Reservations(Protocol):
    """The part of ReservedListeners that ListenersInForce needs."""

    def reserve(self, listener: str, host: str, port: int) -> None: ...

    def release(self) -> None: ...


class ListeningServer(Protocol):
    """The part of SocketServer that opens and closes listeners."""

    @property
    def reserved(self) -> Reservations: ...

    def add_listener(self, name: str, host: str, port: int, security_protocol: SecurityProtocol, /) -> object: ...

    def remove_listener(self, name: str) -> None: ...

    def start(self, listener: str | None = None) -> None: ...

    def pause(self, listeners: Collection[str], why: str) -> None: ...

    def resume(self, listeners: Collection[str]) -> None: ...

    def address(self, listener: str) -> tuple[str, int]: ...


class ListenersTls(Protocol):
    """The part of TlsOnDemand that ListenersInForce needs."""

    @property
    def problems(self) -> list[str]: ...

    def configure(self, effective: EffectiveConfig) -> None: ...

    async def check(self, own: Mapping[str, str], opened: Collection[str]) -> None: ...

    def is_configured(self, own: Mapping[str, str]) -> bool: ...


class ListenersInForce:
    """The listeners of a broker: which are open, whether clients are admitted, and the advertised addresses.

    Nothing is durable. `changed` is called when the advertised addresses have changed.
    """

    def __init__(self, settings: BrokerSettings, server: ListeningServer, tls: ListenersTls | None = None) -> None:
        self._settings = settings
        self._tls = tls
        self._server = server
        self._wanted = static_listeners(settings)
        self._opened: dict[str, Endpoint] = {}
        """Open listeners by name, as configured: a port 0 stays 0."""
        self._failed: dict[str, str] = {}
        self._serving = False
        self._paused: str | None = None
        self._one_change = asyncio.Lock()
        self._applied = asyncio.Event()
        self.changed: Callable[[], None] = _nobody

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each configured listener that is not open, and each certificate that is not used."""
        return [*self._failed.values(), *(() if self._tls is None else self._tls.problems)]

    def bind(self) -> None:
        """Open the listeners of the properties file without accepting yet. Raises ListenerBindError."""
        for endpoint in self._wanted.opened:
            self._open(endpoint)

    def advertised(self) -> Sequence[Endpoint]:
        """Return the advertised addresses of open listeners, the inter-broker one first; a port 0 is the bound port.

        A controller-only process does not know which listener is for brokers; it shows the first.
        """
        told = [
            replace(e, host=e.host or socket.gethostname(), port=e.port or self._server.address(e.listener)[1])
            for e in self._wanted.advertised
            if e.listener in self._opened
        ]
        return sorted(told, key=lambda endpoint: endpoint.listener != self._settings.inter_broker_listener)

    def serve(self) -> None:
        """Admit clients, also on listeners that are opened later."""
        self._serving = True
        self._server.start()

    def pause(self, why: str) -> None:
        """Stop serving clients. A listener that only brokers use stays open; one that clients share does not."""
        self._paused = why
        self._server.pause(self._for_clients(), why)

    def resume(self) -> None:
        self._paused = None
        self._server.resume(list(self._opened))

    def _for_clients(self) -> list[str]:
        names = list(self._opened)
        return [name for name in names if name != self._settings.inter_broker_listener] or names

    def configure(self, effective: EffectiveConfig) -> None:
        """Close listeners that are no longer wanted, and open new ones.

        Raises ListenerBindError if a listener has to be retried; the others are in force.
        """
        told = self.advertised()
        if self._tls is not None:
            self._tls.configure(effective)
        self._wanted = effective.listeners
        self._failed.clear()
        for name, endpoint in list(self._opened.items()):
            if not any(self._is_open(wanted) for wanted in self._wanted.opened if wanted.listener == name):
                self._close(name, endpoint)
        failure = ""
        for endpoint in self._wanted.opened:
            if endpoint.listener not in self._opened:
                try:
                    self._open(endpoint)
                except (ConfigError, ListenerBindError) as error:
                    failure = str(error)
                    self._failed[endpoint.listener] = f"{failure} (its address is configured dynamically)"
        if self._paused is not None:
            # Pauses new listeners, and the inter-broker one if no other is left for clients.
            self._server.pause(self._for_clients(), self._paused)
        if self.advertised() != told:
            self.changed()
        self._applied.set()
        if failure:
            raise ListenerBindError(failure)

    def _is_open(self, wanted: Endpoint) -> bool:
        """Whether the listener is open under this address, or on a free port that is now requested by its number."""
        known = self._opened.get(wanted.listener)
        if known is None or known == wanted:
            return known is not None
        bound = self._server.address(wanted.listener)[1]
        return wanted.port == bound and replace(known, port=bound) == wanted

    def _open(self, endpoint: Endpoint) -> None:
        name = endpoint.listener
        self._server.add_listener(name, endpoint.host, endpoint.port, endpoint.security_protocol)
        self._opened[name] = endpoint
        if self._serving:
            self._server.start(name)
            log.info("listener %s is open on port %d", name, self._server.address(name)[1])

    def _close(self, name: str, endpoint: Endpoint) -> None:
        del self._opened[name]
        self._server.remove_listener(name)
        log.info("listener %s is closed, with its connections", endpoint)

    @asynccontextmanager
    async def opening(self, change: Callable[[], Mapping[str, str]]) -> AsyncIterator[Mapping[str, str]]:
        """Open the listeners that a change adds; one change at a time.

        `change` returns this broker's future dynamic configuration. New listeners are open, but do not accept, until
        the body ends or they are in force. Raises KafkaError(INVALID_REQUEST) for listeners that break a rule or cannot
        be opened; nothing changes then.
        """
        async with self._one_change:
            own = change()
            try:
                if self._tls is not None:
                    await self._tls.check(own, self._opened)
                for endpoint in dynamic_listeners(self._settings, own).opened:
                    if not self._is_open(endpoint):
                        self._server.reserved.reserve(endpoint.listener, endpoint.host, endpoint.port)
                yield own
            except (ConfigError, ListenerBindError) as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
            finally:
                self._server.reserved.release()

    async def in_force(self, own: Mapping[str, str], timeout_s: float) -> bool:
        """Wait until the listeners are those of `own`; return False after the timeout."""
        wanted: Listeners = dynamic_listeners(self._settings, own)
        try:
            async with asyncio.timeout(timeout_s):
                while self._wanted != wanted or not (self._tls is None or self._tls.is_configured(own)):
                    self._applied.clear()
                    await self._applied.wait()
        except TimeoutError:
            return False
        return True


def _nobody() -> None:
    return None
