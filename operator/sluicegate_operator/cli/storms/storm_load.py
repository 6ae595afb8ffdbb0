"""The load itself: one thread, non-blocking sockets and a selector; connect, send ApiVersions, await the answer, close.

It has its own loop instead of asyncio's: an attempt costs some fifty microseconds this way, so that one process exceeds
ten thousand a second. In an open loop, attempts are due at a fixed rate, whatever the answers. In a closed loop, each
worker makes its next attempt when the last one has ended. There are never more than `max_open` sockets.
"""

import errno
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from kafka_bytes.frames import request_frame
from sluicegate_operator.cli.storms.storm_report import AttemptOutcome, StormReport

CLIENT_ID = "sluicegate-storm"
"""The client id of the storm, which identifies the storm in a broker's audit log."""
CORRELATION_ID = 7
API_VERSIONS_REQUEST = request_frame(18, 0, CORRELATION_ID, CLIENT_ID)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of zero, which avoids TIME_WAIT: otherwise a long storm would run out of ports."""
IP_BIND_ADDRESS_NO_PORT = 24
"""Linux's socket option to choose the source port at connect: ports then need to be unique for each target only."""
MAX_BATCH = 256
"""Maximum number of attempts that begin before answers are read again."""


@dataclass(frozen=True, slots=True)
class StormPlan:
    """The plan of a test storm of connections.

    `rate` is in attempts per second, or None for a closed loop of `workers`.
    """

    address: str
    port: int
    seconds: float
    rate: float | None
    workers: int | None = None
    sources: tuple[str, ...] = ()
    timeout_s: float = 2.0
    max_open: int = 4096

    @property
    def target(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(slots=True, eq=False)
class _Attempt:
    socket: socket.socket
    source: str
    started_s: float
    sent: bool = False
    received: bytearray = field(default_factory=bytearray)
    done: bool = False


class Storm:
    """A test storm of connections to one address.

    Call `run` once; another thread may read `report` meanwhile and set `stop`.
    """

    def __init__(self, plan: StormPlan) -> None:
        self.plan = plan
        self.report = StormReport(plan.target)
        self.stop = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._family = socket.AF_INET6 if ":" in plan.address else socket.AF_INET
        self._sources = plan.sources or ("",)
        self._next_source = 0
        self._by_age: deque[_Attempt] = deque()
        self._open = 0
        self._begin_s = 0.0
        self._due = 0

    def run(self) -> StormReport:
        self._begin_s = time.monotonic()
        end_s = self._begin_s + self.plan.seconds
        try:
            while (now_s := time.monotonic()) < end_s and not self.stop.is_set():
                wait_s = self._begin_due(now_s)
                self._serve(min(wait_s, end_s - now_s))
            self.report.elapsed_s = time.monotonic() - self._begin_s
            self._drain(time.monotonic() + min(self.plan.timeout_s, 1.0))
        finally:
            self._abandon()
            self._selector.close()
        return self.report

    def _begin_due(self, now_s: float) -> float:
        """Begin the attempts that are due. Returns the seconds until the next one is due."""
        if self.plan.rate is None:
            free = (self.plan.workers or 1) - self._open
            for _ in range(min(free, MAX_BATCH)):
                self._begin()
            return 0.05
        due = int((now_s - self._begin_s) * self.plan.rate) + 1
        for _ in range(min(due - self._due, MAX_BATCH)):
            self._due += 1
            if self._open >= self.plan.max_open:
                self.report.skipped += 1
            else:
                self._begin()
        if self._due < due:
            return 0.0
        return max(0.0, self._begin_s + self._due / self.plan.rate - time.monotonic())

    def _begin(self) -> None:
        source = self._sources[self._next_source]
        self._next_source = (self._next_source + 1) % len(self._sources)
        self.report.started(source)
        client = socket.socket(self._family, socket.SOCK_STREAM | getattr(socket, "SOCK_NONBLOCK", 0))
        try:
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._bind(client, source)
            code = client.connect_ex((self.plan.address, self.plan.port))
        except OSError as error:
            client.close()
            self.report.failed_here(source, os.strerror(error.errno or 0))
            return
        if code not in (0, errno.EINPROGRESS):
            client.close()
            self._note_failed_connect(source, code)
            return
        attempt = _Attempt(client, source, time.monotonic())
        self._open += 1
        self._by_age.append(attempt)
        # On loopback the handshake is complete when connect returns: the request can usually be sent at once.
        if self._send(attempt):
            self._selector.register(client, selectors.EVENT_READ, attempt)
        elif not attempt.done:
            self._selector.register(client, selectors.EVENT_WRITE, attempt)

    def _bind(self, client: socket.socket, source: str) -> None:
        if not source:
            return
        if hasattr(os, "sched_getaffinity"):  # Linux
            client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        client.bind((source, 0))

    def _send(self, attempt: _Attempt) -> bool:
        """Send the request. Returns False if the connection is not established yet or the attempt has ended."""
        try:
            attempt.socket.send(API_VERSIONS_REQUEST)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return False
            self._end_failed(attempt, error.errno or 0)
            return False
        attempt.sent = True
        return True

    def _serve(self, wait_s: float) -> None:
        for key, _ in self._selector.select(wait_s):
            attempt: _Attempt = key.data
            if not attempt.sent:
                if self._send(attempt):
                    self._selector.modify(attempt.socket, selectors.EVENT_READ, attempt)
            else:
                self._receive(attempt)
        self._expire(time.monotonic() - self.plan.timeout_s)

    def _receive(self, attempt: _Attempt) -> None:
        try:
            data = attempt.socket.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self._end_failed(attempt, error.errno or 0)
            return
        attempt.received += data
        if not data:
            self._end(attempt, AttemptOutcome.CLOSED)
        elif len(attempt.received) >= 8:
            now_s = time.monotonic()
            if int.from_bytes(attempt.received[4:8], "big") == CORRELATION_ID:
                self.report.answered(attempt.source, now_s - attempt.started_s, now_s - self._begin_s)
                self._forget(attempt)
            else:
                self._end(attempt, AttemptOutcome.CLOSED)

    def _expire(self, oldest_s: float) -> None:
        while self._by_age and (self._by_age[0].done or self._by_age[0].started_s <= oldest_s):
            attempt = self._by_age.popleft()
            if not attempt.done:
                self._end(attempt, AttemptOutcome.TIMED_OUT)

    def _drain(self, deadline_s: float) -> None:
        """Wait for answers that are still pending, without new attempts."""
        while self._open and (left_s := deadline_s - time.monotonic()) > 0 and not self.stop.is_set():
            self._serve(min(left_s, 0.05))

    def _abandon(self) -> None:
        for attempt in self._by_age:
            if not attempt.done:
                self.report.unfinished += 1
                self._forget(attempt)
        self._by_age.clear()

    def _note_failed_connect(self, source: str, code: int) -> None:
        if code in (errno.ECONNREFUSED, errno.ECONNRESET):
            self.report.ended(source, AttemptOutcome.REFUSED)
        else:
            self.report.failed_here(source, os.strerror(code))

    def _end_failed(self, attempt: _Attempt, code: int) -> None:
        if code == errno.ECONNREFUSED:
            self._end(attempt, AttemptOutcome.REFUSED)
        elif code in (errno.ECONNRESET, errno.EPIPE):
            self._end(attempt, AttemptOutcome.CLOSED)
        elif code == errno.ETIMEDOUT:
            self._end(attempt, AttemptOutcome.TIMED_OUT)
        else:
            self.report.failed_here(attempt.source, os.strerror(code))
            self._forget(attempt)

    def _end(self, attempt: _Attempt, outcome: AttemptOutcome) -> None:
        self.report.ended(attempt.source, outcome)
        self._forget(attempt)

    def _forget(self, attempt: _Attempt) -> None:
        attempt.done = True
        self._open -= 1
        if attempt.socket in self._selector.get_map():
            self._selector.unregister(attempt.socket)
        attempt.socket.close()
