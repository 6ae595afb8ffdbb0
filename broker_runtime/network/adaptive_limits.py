"""Measure how long ready requests wait for the event loop, and move the adaptive rates by it (decision 68). Shell.

A probe is one byte on a socket pair that the poller watches, like the socket of a client with a short request. It is
late by the rest of the event loop's iteration, and by the sockets that the poller had no time for. Probes are sent only
while a rate adapts and new connections come; an idle broker sends none.
"""

import logging
import socket
from asyncio import TimerHandle
from collections.abc import Callable

from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.quotas.refusals import RefusalLog
from connection_limits.adaptive.control import INTERVAL_MS
from connection_limits.adaptive.delays import PROBE_MS
from connection_limits.adaptive_rates import AdaptiveRates, Moved
from connection_limits.quotas import ConnectionQuotas

_log = logging.getLogger(__name__)

_PROBE_S = PROBE_MS / 1000
_INTERVAL_S = INTERVAL_MS / 1000


class Probe:
    """A socket pair that measures the delays of the event loop while it is open.

    Reports each delay to `late_by`, in seconds. Raises OSError if the process has too few free descriptors.
    """

    def __init__(self, shared: Shared, late_by: Callable[[float], None]) -> None:
        self._shared = shared
        self._late_by = late_by
        self._sender, self._receiver = socket.socketpair()
        self._sender.setblocking(False)
        self._receiver.setblocking(False)
        self._due_s = shared.now()
        self._sent_due_s: float | None = None
        """When the probe that waits was due; None if none waits."""
        try:
            shared.poller.watch(self._receiver.fileno(), self)
        except OSError:
            self._close_sockets()
            raise
        self._timer: TimerHandle = shared.loop.call_later(_PROBE_S, self._send)
        self._due_s += _PROBE_S

    def _send(self) -> None:
        now_s = self._shared.now()
        if self._sent_due_s is None:
            self._sent_due_s = self._due_s
            self._sender.send(b"\0")
        self._due_s = max(self._due_s + _PROBE_S, now_s)
        self._timer = self._shared.loop.call_later(self._due_s - now_s, self._send)

    def on_readable(self) -> None:
        self._receiver.recv(16)
        if self._sent_due_s is not None:
            delay_s, self._sent_due_s = self._shared.now() - self._sent_due_s, None
            self._late_by(delay_s)

    def on_writable(self) -> None:
        """Do nothing: only reading is watched."""

    def was_heavy(self, length_s: float) -> None:
        """Do nothing: reading one byte is short."""

    def on_hang_up(self) -> None:
        """Do nothing: both ends are closed together."""

    def close(self) -> None:
        self._timer.cancel()
        self._shared.poller.forget(self._receiver.fileno())
        self._close_sockets()

    def _close_sockets(self) -> None:
        self._sender.close()
        self._receiver.close()


class AdaptiveLimits:
    """Decides the adaptive rates of `quotas` every half second.

    While no rate adapts, it has neither a timer nor a socket. `moved` is called with the listener whose rate has
    changed, None for the broker's, with the rate, and with the time in seconds. `refusals` counts failures.
    """

    def __init__(
        self,
        shared: Shared,
        quotas: ConnectionQuotas,
        refusals: RefusalLog,
        moved: Callable[[str | None, int, float], None],
    ) -> None:
        self._shared = shared
        self._refusals = refusals
        self._moved = moved
        self.rates = AdaptiveRates(quotas, self._now_ms())
        self._timer: TimerHandle | None = None
        self._probe: Probe | None = None
        self._newcomers_s = shared.newcomers_s
        self._logged_s: dict[str | None, float] = {}
        """Time at which a lower rate of a target was last logged."""
        self._closed = False

    def _now_ms(self) -> int:
        return int(self._shared.now() * 1000)

    def settings_changed(self) -> None:
        """Begin or stop deciding, as the settings of the quotas require."""
        if self._closed or not any(True for _ in self.rates.by_target()):
            self._stop()
        elif self._timer is None:
            self._timer = self._shared.loop.call_later(_INTERVAL_S, self._decide)

    def _decide(self) -> None:
        self._timer = None
        # A listener may have been removed with its rate.
        self.settings_changed()
        if self._timer is None:
            return
        now_s = self._shared.now()
        now_ms = int(now_s * 1000)
        needs_delays = self.rates.needs_delays(now_ms)
        newcomers_s, self._newcomers_s = self._shared.newcomers_s - self._newcomers_s, self._shared.newcomers_s
        for moved in self.rates.decide(newcomers_s * 1000, now_ms):
            self._report(moved)
            self._moved(moved.listener, moved.adaptive.rate, now_s)
        if needs_delays:
            self._begin_probing(now_ms)
        else:
            self._end_probing()

    def _begin_probing(self, now_ms: int) -> None:
        if self._probe is not None:
            return
        try:
            self._probe = Probe(self._shared, self._late_by)
        except OSError as error:
            text = (
                f"cannot measure the event loop's delay, so adaptive rates are not lowered: {error.strerror}; retrying"
            )
            line = self._refusals.note("adaptive-rate-probe", text, now_ms)
            if line is not None:
                _log.warning("%s", line)

    def _end_probing(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _late_by(self, delay_s: float) -> None:
        self.rates.add_delay(delay_s * 1000)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_probing()

    def close(self) -> None:
        """Stop adapting rates for good: no more decisions and probes. A second call does nothing."""
        self._closed = True
        self._stop()

    def _report(self, moved: Moved) -> None:
        """Log a lower rate, at most once in each log interval for a target: a storm lowers it every few seconds."""
        now_s, adaptive = self._shared.now(), moved.adaptive
        logged_s = self._logged_s.get(moved.listener, float("-inf"))
        if adaptive.rate >= moved.before or now_s - logged_s < self._shared.limits.log_interval_s:
            return
        self._logged_s[moved.listener] = now_s
        target = "this broker" if moved.listener is None else f"listener {moved.listener}"
        _log.info(
            "%s now accepts %d new connections a second (before: %d): the p99 of the event loop's delay was %.1f ms, "
            "the objective is %d ms",
            target,
            adaptive.rate,
            moved.before,
            adaptive.p99_ms,
            adaptive.bounds.objective_ms,
        )
