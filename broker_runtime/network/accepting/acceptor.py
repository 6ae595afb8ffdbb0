"""Accept the connections of one listening socket, a few per time slice, and pass each to `Admission`. Shell.

While it is paused (the broker is fenced) it accepts and closes at once. Not accepting would leave clients waiting in
the backlog for a broker that may never serve again. Closing the listening socket would free the port, and for example
an outgoing connection of this host could take it. A client whose connection is closed tries another broker.

Clients that wait in the process use places of the backlog, so the kernel's queue is as much shorter.
"""

import errno
import socket
from asyncio import TimerHandle

from broker_runtime.config.declaring.addresses import peer_host
from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.accepting.admission import Admission, ConnectionFactory
from broker_runtime.network.accepting.admission_reports import AdmissionReports
from broker_runtime.network.accepting.waiting_clients import HELD_MAX, WaitingClients
from broker_runtime.network.connection.connection_notices import BACKLOG
from broker_runtime.network.quotas.metrics import AcceptorMetrics
from broker_runtime.network.sockets.listening import waiting_clients

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_EXTRA_PLACE = 1
"""Linux queues one more connection than `listen` requests."""


class Acceptor:
    """Accepts the clients of one listener: decides when, and how many may wait in the kernel.

    Owns `listening`; the quotas call `wake`.
    """

    def __init__(
        self, listener: str, listening: socket.socket, connect: ConnectionFactory, runtime: AcceptorRuntime
    ) -> None:
        self._listener = listener
        self._listening = listening
        self._accept_errors_total = 0
        self._backlog = self._places = runtime.limits.listen_backlog
        """Number of clients that may wait, and how many of them may wait in the kernel."""
        self._runtime = runtime
        self._quotas = runtime.quotas
        self._loop = runtime.loop
        self._now = runtime.now
        self._accepts_per_wakeup = runtime.limits.accepts_per_wakeup
        self._slice_s = runtime.limits.turn_s
        self._accepting = False
        self._started = False
        self._stopped = False
        self._pause_timer: TimerHandle | None = None
        self._reports = AdmissionReports(listener, runtime)
        self._waiting = WaitingClients(self._loop, self._now, self._on_wait_over, self._check_waiting)
        self._admission = Admission(self._waiting, connect, self._reports, runtime)
        self._fit_backlog()

    @property
    def address(self) -> tuple[str, int]:
        name = self._listening.getsockname()
        return name[0], name[1]

    @property
    def waiting_total(self) -> int:
        """Number of clients that wait for the quotas, in this process and in the kernel; 0 while none is delayed."""
        if self._stopped or not self._waiting.delays:
            return 0
        return len(self._waiting) + waiting_clients(self._listening)

    def metrics(self) -> AcceptorMetrics:
        """Return the present metrics of this listener."""
        return AcceptorMetrics(
            listener=self._listener,
            delayed_count=len(self._admission.refused),
            accept_errors_total=self._accept_errors_total,
            abandoned_total=self._reports.abandoned_total,
            waiting_count=len(self._waiting),
            is_for_proxies=bool(self._admission.trusted),
            awaited_headers=len(self._admission.headers),
            header_outcomes=self._reports.header_outcomes,
        )

    def limits_changed(self) -> None:
        """Apply changed connection limits to this listener's waiting clients.

        A lower rate leaves fewer places, and clients that wait beyond them are disconnected. A limit set during a storm
        meets thousands of waiting clients: most have given up, and new clients would wait behind them for a minute.
        """
        self._admission.limits_changed()
        before = self._backlog
        self._fit_backlog()
        self._watch_listening()
        if self._backlog < before:
            self._loop.call_soon(self._shed)

    def _shed(self) -> None:
        """Disconnect the clients that have waited longest, a few per iteration. The quotas do not count them."""
        waiting = self._waiting
        surplus = 0
        if not self._stopped:
            surplus = waiting_clients(self._listening) + waiting.behind - self._backlog - _EXTRA_PLACE
        for _ in range(min(surplus, self._accepts_per_wakeup)):
            if waiting.behind:
                accepted, peer, _, arrived_s = waiting.take(int(waiting.delays))
            else:
                try:
                    accepted, address = self._listening.accept()
                except OSError:
                    # The clients have gone, or no descriptor is free: the remaining ones keep waiting.
                    return
                peer, arrived_s = (peer_host(address[0]), address[1]), self._now()
            accepted.close()
            self._reports.refused(peer, BACKLOG, self._now(), arrived_s)
            text = f"closed connections that waited for {self._listener}: its new limit leaves fewer slots"
            self._reports.warn("backlog", text)
        if surplus > self._accepts_per_wakeup:
            self._loop.call_soon(self._shed)
        elif surplus > 0:
            self._fit_backlog()

    def _fit_backlog(self) -> None:
        """Size the kernel's queue to the places of the backlog that no waiting client uses."""
        self._backlog = self._quotas.backlog(self._listener, self._runtime.limits.listen_backlog)
        places = max(self._backlog - self._waiting.behind, 0)
        if places != self._places:
            self._places = places
            # Calling `listen` again changes only the length of the queue.
            self._listening.listen(places)

    def start(self) -> None:
        self._started = True
        self._watch_listening()

    def _watch_listening(self) -> None:
        """Start or stop accepting, as the current state requires."""
        wanted = self._started and not self._stopped and self._pause_timer is None and self._has_room
        if wanted and not self._accepting:
            self._loop.add_reader(self._listening.fileno(), self._on_ready)
        elif self._accepting and not wanted:
            self._loop.remove_reader(self._listening.fileno())
        self._accepting = wanted

    @property
    def _has_room(self) -> bool:
        """Whether one more client may be accepted while the quotas delay one."""
        if not self._waiting.delays:
            return True
        return not self._quotas.settings.count_abandoned and self._waiting.behind < min(self._backlog, HELD_MAX)

    def pause(self, why: str) -> None:
        """Close each new connection without asking the quotas, until `resume`. `why` is the reason for the log."""
        has_delayed = self._waiting.delays
        self._admission.pause(why)
        if has_delayed:
            self._watch_listening()
            self._loop.call_soon(self._on_ready)

    def resume(self) -> None:
        self._admission.paused = None

    def _on_ready(self) -> None:
        """Take the next clients for a bounded time, beginning with waiting ones that the quotas have not judged yet."""
        if self._stopped:
            # The acceptor was stopped in the previous iteration: its socket is closed, and the quotas may have removed
            # it.
            return
        accept, waiting, take = self._listening.accept, self._waiting, self._admission.take
        shared = self._runtime.shared
        begin_s, newcomers_s = self._now(), shared.newcomers_s
        stop_s = begin_s + self._slice_s
        for _ in range(self._accepts_per_wakeup):
            if waiting.is_next:
                accepted, peer, _, arrived_s = waiting.take()
                accepted_s = self._now()
            else:
                try:
                    accepted, address = accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if not self._accept_failed(error):
                        return
                    continue
                peer = (peer_host(address[0]), address[1])
                arrived_s = accepted_s = self._now()
            take(accepted, peer, accepted_s, arrived_s)
            if waiting.delays:
                self._watch_listening()
                if not self._accepting:
                    break
            if accepted_s >= stop_s:
                # Serving what the new clients had already sent used up the time.
                break
        self._fit_backlog()
        now_s = self._now()
        # It includes what new connections have recorded for themselves during this time slice.
        shared.newcomers_s = newcomers_s + now_s - begin_s
        if self._accepting and (waiting.delays or self._runtime.established_busy(now_s)):
            self._pause_for(self._runtime.limits.accept_yield_s)
        elif waiting.is_next:
            self._loop.call_soon(self._on_ready)

    def _accept_failed(self, error: OSError) -> bool:
        """Return whether the next accept may be tried at once."""
        if error.errno not in _OUT_OF_RESOURCES:
            return error.errno in (errno.ECONNABORTED, errno.EINTR, errno.EPROTO)
        self._accept_errors_total += 1
        text = f"listener {self._listener} cannot accept connections: {error.strerror}; retrying"
        self._reports.warn("accept-error", text)
        self._pause_for(self._runtime.limits.accept_error_pause_s)
        return False

    def _pause_for(self, pause_s: float) -> None:
        """Stop accepting for `pause_s`, so that the loop serves established clients; new ones wait in the backlog."""
        self._pause_timer = self._loop.call_later(pause_s, self._after_pause)
        self._watch_listening()

    def _after_pause(self) -> None:
        self._pause_timer = None
        self._watch_listening()
        if self._waiting.is_next:
            self._on_ready()

    def wake(self) -> None:
        """Ask the quotas again in the next iteration of the event loop, because a slot is free.

        They are not asked at once: they are still changing.
        """
        if self._waiting.delays:
            self._loop.call_soon(self._on_wait_over)

    def _on_wait_over(self) -> None:
        if self._waiting.delays and self._admission.ask_again():
            self._watch_listening()
            # Often the next client is already in the queue; the loop would find it only after the next poll.
            self._on_ready()

    def _check_waiting(self) -> None:
        """Remove waiting clients that have hung up, so that others can take their places."""
        self._admission.drop_abandoned()
        self._watch_listening()
        self._fit_backlog()
        self._waiting.check_soon()

    def close(self) -> None:
        """Stop accepting, and close all clients that are not admitted.

        From then on, the kernel refuses new connections.
        """
        self._stopped = True
        self._watch_listening()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        self._admission.close()
        self._listening.close()
