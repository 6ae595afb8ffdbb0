"""The listeners, quotas and connections of one process, from start to orderly shutdown. Shell.

It knows neither APIs nor configuration text: requests go to a given handler, limits come as `NetworkLimits`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.clock import Clock
from broker_runtime.config.declaring.endpoints import ENCRYPTED, SASL, SecurityProtocol
from broker_runtime.errors import ConfigError
from broker_runtime.network.accepting.acceptor import Acceptor
from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.connection.handshakes import Handshakes
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.connections import Connections
from broker_runtime.network.quotas.changing_groups import ChangingGroups
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.network.quotas.metrics import NetworkMetrics, Sample, collect
from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.listening import ReservedListeners, listening_socket
from broker_runtime.network.sockets.poller import Poller, default_poller
from broker_runtime.network.sockets.transport import TRANSPORTS, TransportFactory
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import Authenticate, AuthenticatingConnection, FrameHandler
from connection_limits.errors import InvalidLimitError
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

if TYPE_CHECKING:
    from broker_runtime.network.adaptive_limits import AdaptiveLimits

_ADAPTIVE = "broker_runtime.network.adaptive_limits"
"""Imported when the first rate adapts (decision 45)."""


class SocketServer:
    """The listeners of a process, and their connections. Nothing is durable.

    Must be created and used in the thread of `loop`. `answers` counts the memory of answers, which `handler` may count
    as well while it packs them. Only tests pass `poller`.
    """

    def __init__(
        self,
        handler: FrameHandler,
        limits: NetworkLimits,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        poller: Poller | None = None,
        answers: AnswerMemory | None = None,
    ) -> None:
        self.limits = limits
        self._now = clock.monotonic
        self._poller = poller or default_poller(loop, clock.monotonic, limits.turn_s)
        self.quotas = ConnectionQuotas(limits.quotas, self._now_ms(), self._wake)
        self.limit_changes = LimitChanges(self.quotas, self._now)
        self.connection_groups = ChangingGroups(self.quotas.addresses.groups, self._now, loop, self.limit_changes)
        self.refusals = RefusalLog(int(limits.log_interval_s * 1000))
        self.figures = NetworkMetrics()
        self._shared = Shared(loop, self._poller, clock, limits, handler, answers)
        self.connection_notices = self._shared.notices
        self.authentications = AuthenticationCounts()
        handshakes = Handshakes(limits.tls_handshake_timeout_s, limits.tls_handshakes_max, self.authentications)
        self._connections = Connections(self._shared, self.quotas, self.refusals, self.figures, handshakes)
        self._runtime = AcceptorRuntime(self._shared, self.quotas, self.refusals)
        self.acceptors: dict[str, Acceptor] = {}
        self.on_cluster_rate: Callable[[], None] = _do_nothing
        """Called when the settings, or a connection group, have a rate of the cluster or had one before."""
        self.connection_groups.on_cluster_rate = lambda: self.on_cluster_rate()
        self._adaptive: AdaptiveLimits | None = None
        """The adaptive rates; None until the first rate adapts."""
        self._had_cluster_rate = False
        self.reserved = ReservedListeners(limits)
        self._closed = False
        self.encrypted: Callable[[str, SecurityProtocol], TransportFactory] = _no_tls
        """Returns the transports of a listener with TLS, by its name. Raises ConfigError."""
        self.authenticate: Authenticate = _refused
        """Prepares the connections of SASL listeners that are added afterwards."""

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def add_listener(
        self, name: str, host: str, port: int, security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ) -> tuple[str, int]:
        """Bind a listener, and listen, but accept nothing before `start`. Return the bound address.

        Raises ListenerBindError, and ConfigError if the TLS settings of the listener cannot be used.
        """
        is_encrypted = security_protocol in ENCRYPTED
        wrap = self.encrypted(name, security_protocol) if is_encrypted else TRANSPORTS[security_protocol]
        if is_encrypted:
            self.authentications.begin(name)
        authenticate = self.authenticate if security_protocol in SASL else None
        connect = partial(self._connections.connect, wrap, authenticate)
        listening = self.reserved.take(name, host, port) or listening_socket(name, host, port, self.limits)
        now_s = self._now()
        self.quotas.add_listener(name, int(now_s * 1000))
        self.limit_changes.listener(name, now_s, is_open=True)
        acceptor = self.acceptors[name] = Acceptor(name, listening, connect, self._runtime)
        self._adapt()
        return acceptor.address

    def start(self, listener: str | None = None) -> None:
        """Accept clients on one listener, or on all."""
        for name, acceptor in self.acceptors.items():
            if listener is None or name == listener:
                acceptor.start()

    def remove_listener(self, name: str) -> None:
        """Close the listener at once, and its connections over several iterations; they are not served any more.

        Its limits and metrics are removed with the last connection, unless the listener has been added again by then.
        """
        self.acceptors.pop(name).close()
        self._connections.hang_up_on_those_of({name})
        now_s = self._now()
        self.quotas.retire_listener(name, int(now_s * 1000))
        self.limit_changes.listener(name, now_s, is_open=False)

    def pause(self, listeners: Collection[str], why: str) -> None:
        """Close the connections of these listeners, and each new one until `resume`.

        `why` is the reason for the log.
        """
        for name in listeners:
            self.acceptors[name].pause(why)
        self._connections.hang_up_on_those_of(listeners)

    def resume(self, listeners: Collection[str]) -> None:
        for name in listeners:
            self.acceptors[name].resume()

    def address(self, listener: str) -> tuple[str, int]:
        return self.acceptors[listener].address

    @property
    def listeners(self) -> tuple[str, ...]:
        return tuple(self.acceptors)

    def update_limits(self, quotas: QuotaSettings) -> None:
        """Enforce new quotas from the next accepted socket on.

        Raises ConfigError, and then changes nothing.
        """
        before, now_s = self.quotas.settings, self._now()
        try:
            self.quotas.update(quotas, int(now_s * 1000))
        except InvalidLimitError as error:
            raise ConfigError(str(error)) from None
        self.limit_changes.settings(before, now_s)
        for acceptor in self.acceptors.values():
            acceptor.limits_changed()
        self._adapt()
        self._connections.evict_soon()

    def _adapt(self) -> None:
        """Begin or end to adapt rates, as the settings of the quotas require."""
        settings = self.quotas.settings
        if self._adaptive is None and (settings.objective or settings.listener_objectives):
            make = import_module(_ADAPTIVE).AdaptiveLimits
            self._adaptive = make(self._shared, self.quotas, self.refusals, self._rate_moved)
        if self._adaptive is not None:
            self._adaptive.settings_changed()
        has_cluster_rate = settings.cluster_wide or bool(settings.cluster_wide_listeners)
        if has_cluster_rate or self._had_cluster_rate:
            self._had_cluster_rate = has_cluster_rate
            self.on_cluster_rate()

    def _rate_moved(self, listener: str | None, rate: int, now_s: float) -> None:
        """Handle that an adaptive rate has changed: of this listener, or of the broker if it is None."""
        self.limit_changes.adapted(listener, rate, now_s)
        for name, acceptor in self.acceptors.items():
            if listener is None or name == listener:
                acceptor.limits_changed()

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        """Change the rate of an `ip` quota entity.

        `ip` None is the default entity; `rate` None removes the rate.
        """
        now_s = self._now()
        self.quotas.addresses.update_rate(ip, rate, int(now_s * 1000))
        self.limit_changes.ip_rate(ip, rate, now_s)

    def _wake(self, listener: str) -> None:
        acceptor = self.acceptors.get(listener)
        if acceptor is not None:
            acceptor.wake()

    def collect(self) -> Iterable[Sample]:
        memory = self._shared.buffers.memory
        self.figures.buffered_bytes = memory.total
        self.figures.unfinished_requests = len(memory.holders)
        self.figures.requests_without_memory = len(memory)
        answers = self._shared.buffers.answers
        self.figures.answer_bytes = answers.used
        self.figures.unread_answers = answers.unread
        self.figures.paused_answers = answers.paused
        acceptors = [acceptor.metrics() for acceptor in self.acceptors.values()]
        return collect(self.quotas, self.figures, self.refusals, acceptors, self._now_ms(), self.authentications)

    @property
    def slice_lengths(self) -> Iterable[SliceLengths]:
        return self._poller.lengths, self._shared.slices.lengths, self._connections.hanging_up.lengths

    async def shutdown(self, drain_s: float) -> None:
        """Stop accepting, wait up to `drain_s` for requests in progress to be answered, then close everything."""
        self.reserved.release()
        if self._adaptive is not None:
            self._adaptive.close()
        for acceptor in self.acceptors.values():
            acceptor.close()
        await self._connections.drain(drain_s)
        self._connections.close()
        if not self._closed:
            self._closed = True
            self._poller.close()


def _do_nothing() -> None:
    """Ignore a rate of the cluster: the process is not a broker."""


def _refused(connection: AuthenticatingConnection) -> None:
    connection.refuse("authentication-failed", "this process has no authentication by SASL")


def _no_tls(listener: str, security_protocol: SecurityProtocol) -> TransportFactory:
    raise ConfigError(f"{listener}: this process has no transports for {security_protocol.name}")
