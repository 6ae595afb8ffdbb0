"""Which listeners this broker has open: those of its file at first, then what its dynamic configuration says (KIP-226).

A change comes in two steps. The broker that is asked for it opens what is new, before the controller stores it: a port
that is taken refuses the change. What is stored then comes back as metadata, and is put in force: what is gone is
closed, what is new accepts. At a start only the second step is there; what cannot be opened is told, and tried again.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from broker_runtime.config import BrokerSettings, Endpoint, SecurityProtocol
from broker_runtime.config.dynamic_listeners import Listeners, dynamic_listeners, static_listeners
from broker_runtime.config.effective import EffectiveConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.network.listening import ListenerBindError

log = logging.getLogger(__name__)


class Reservations(Protocol):
    """The part of ReservedListeners that is used."""

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


class ListenersInForce:
    """Owns which listeners are open, who is let in, and what is told of them. Nothing of it is durable.

    `changed` is called when other addresses than before are to be told to clients.
    """

    def __init__(self, settings: BrokerSettings, server: ListeningServer) -> None:
        self._settings = settings
        self._server = server
        self._wanted = static_listeners(settings)
        self._opened: dict[str, Endpoint] = {}
        """As they are configured, by name: a port 0 is still one."""
        self._failed: dict[str, str] = {}
        self._serving = False
        self._paused: str | None = None
        self._one_change = asyncio.Lock()
        self._applied = asyncio.Event()
        self.changed: Callable[[], None] = _nobody

    @property
    def problems(self) -> list[str]:
        """Listeners that are configured and not open, a sentence each."""
        return list(self._failed.values())

    def bind(self) -> None:
        """Open those of the file without accepting yet; raises ListenerBindError."""
        for endpoint in self._wanted.opened:
            self._open(endpoint)

    def advertised(self) -> Sequence[Endpoint]:
        """What clients are told of open listeners, the one for brokers first; a port 0 is the one that was bound.

        A controller that is no broker is not told which listener is for brokers; it shows the first.
        """
        told = [
            replace(e, host=e.host or socket.gethostname(), port=e.port or self._server.address(e.listener)[1])
            for e in self._wanted.advertised
            if e.listener in self._opened
        ]
        return sorted(told, key=lambda endpoint: endpoint.listener != self._settings.inter_broker_listener)

    def serve(self) -> None:
        """Let clients in, on listeners that are still to come as well."""
        self._serving = True
        self._server.start()

    def pause(self, why: str) -> None:
        """Serve no clients; a listener that is only for brokers stays open, one that clients share does not."""
        self._paused = why
        self._server.pause(self._for_clients(), why)

    def resume(self) -> None:
        self._paused = None
        self._server.resume(list(self._opened))

    def _for_clients(self) -> list[str]:
        names = list(self._opened)
        return [name for name in names if name != self._settings.inter_broker_listener] or names

    def configure(self, effective: EffectiveConfig) -> None:
        """Close what is not wanted any more, open what is new. Raises ListenerBindError when something is left to be
        tried again; the others are in force."""
        told = self.advertised()
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
                except ListenerBindError as error:
                    failure = str(error)
                    self._failed[endpoint.listener] = f"{failure} (its address is configured dynamically)"
        if self._paused is not None:
            # Those that are new, and the brokers' one where no other is left to clients.
            self._server.pause(self._for_clients(), self._paused)
        if self.advertised() != told:
            self.changed()
        self._applied.set()
        if failure:
            raise ListenerBindError(failure)

    def _is_open(self, wanted: Endpoint) -> bool:
        """Under this address: also one that took a free port, and that is now asked for by its number."""
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
        log.info("listener %s is closed, and its connections end", endpoint)

    @asynccontextmanager
    async def opening(self, change: Callable[[], Mapping[str, str]]) -> AsyncIterator[Mapping[str, str]]:
        """One change at a time: `change` gives what this broker's dynamic configuration is to be. What that adds is
        open, and nobody is accepted there, until the body is over or it is in force.

        Raises KafkaError(INVALID_REQUEST) for listeners that break a rule or cannot be opened, and then nothing is
        different.
        """
        async with self._one_change:
            own = change()
            try:
                for endpoint in dynamic_listeners(self._settings, own).opened:
                    if not self._is_open(endpoint):
                        self._server.reserved.reserve(endpoint.listener, endpoint.host, endpoint.port)
                yield own
            except (ConfigError, ListenerBindError) as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
            finally:
                self._server.reserved.release()

    async def in_force(self, own: Mapping[str, str], timeout_s: float) -> bool:
        """Wait until the listeners are those of `own`; False when they are not by then."""
        wanted: Listeners = dynamic_listeners(self._settings, own)
        try:
            async with asyncio.timeout(timeout_s):
                while self._wanted != wanted:
                    self._applied.clear()
                    await self._applied.wait()
        except TimeoutError:
            return False
        return True


def _nobody() -> None:
    return None
