"""Notify connections when their sockets are ready; level-triggered. Shell.

`EpollPoller` has an epoll of its own, which the event loop watches. So a new connection costs one system call and no
object of the loop; a connection storm consists of such costs. Events for which one iteration has no time are delivered
in the next one, before newer events.

`LoopPoller` does the same with the loop's readers and writers where there is no epoll (macOS). Its iterations are as
long as the number of ready sockets makes them. Neither knows what a connection is.
"""

import select
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

from broker_runtime.network.settings import HEAVY_S
from broker_runtime.slicing.slice_lengths import SliceLengths

_MAX_EVENTS = 256


class Pollable(Protocol):
    """Receives the events of a file descriptor that a Poller watches."""

    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...

    def was_heavy(self, length_s: float) -> None:
        """Receive the notification that the last event blocked the event loop for `length_s`, at least HEAVY_S."""
        ...

    def on_hang_up(self) -> None:
        """Receive the notification that the connection is closed in both directions. It comes while nothing is read."""
        ...


class Poller(Protocol):
    """Watches file descriptors, and notifies their targets when they are ready."""

    @property
    def lengths(self) -> SliceLengths:
        """Return the lengths of the poller's iterations."""
        ...

    def is_behind(self) -> bool:
        """Return whether sockets are ready that an iteration had no time for."""
        ...

    def watch(self, fd: int, target: Pollable) -> None:
        """Watch `fd` for reading."""
        ...

    def change(self, fd: int, *, read: bool, write: bool) -> None: ...

    def forget(self, fd: int) -> None:
        """Stop watching `fd`. Must be called before `fd` is closed."""
        ...

    def close(self) -> None: ...


if hasattr(select, "epoll"):
    _GONE = select.EPOLLHUP | select.EPOLLERR

    class EpollPoller:
        """A poller over epoll. `now` returns seconds.

        An iteration ends with the target that is running when `slice_s` has elapsed.
        """

        __slots__ = ("_epoll", "_loop", "_now", "_slice_s", "_targets", "_undelivered", "lengths")

        def __init__(self, loop: AbstractEventLoop, now: Callable[[], float], slice_s: float) -> None:
            self._loop = loop
            self._now = now
            self._slice_s = slice_s
            self._targets: dict[int, Pollable] = {}
            self._undelivered: list[tuple[int, int]] = []
            """Events (descriptor, mask) that the last iteration had no time for."""
            self.lengths = SliceLengths("sockets")
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._on_events)

        def watch(self, fd: int, target: Pollable) -> None:
            self._targets[fd] = target
            self._epoll.register(fd, select.EPOLLIN)

        def change(self, fd: int, *, read: bool, write: bool) -> None:
            # Reading meets the end of the peer's side after the bytes sent before it: EPOLLRDHUP is not needed.
            wanted = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0)
            self._epoll.modify(fd, wanted)

        def is_behind(self) -> bool:
            return bool(self._undelivered)

        def forget(self, fd: int) -> None:
            # Closing a descriptor removes it from the epoll; no separate system call is needed.
            self._targets.pop(fd, None)
            if self._undelivered:
                # The next connection may get the same descriptor.
                self._undelivered = [event for event in self._undelivered if event[0] != fd]

        def close(self) -> None:
            self._targets.clear()
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

        def _on_events(self) -> None:
            begin_s = now_s = self._now()
            stop_s = begin_s + self._slice_s
            fd = -1
            events = self._undelivered or self._epoll.poll(0, _MAX_EVENTS)
            self._undelivered = []
            count = len(events)
            for position, (fd, event) in enumerate(events, 1):
                self._dispatch(fd, event)
                began_s, now_s = now_s, self._now()
                if now_s - began_s >= HEAVY_S and (target := self._targets.get(fd)) is not None:
                    target.was_heavy(now_s - began_s)
                if now_s >= stop_s and position < count:
                    # The remaining events are still ready, so the loop calls this again in its next iteration.
                    self._undelivered = [event for event in events[position:] if event[0] in self._targets]
                    break
            self.lengths.note(now_s - begin_s, now_s, self._targets.get(fd))

        def _dispatch(self, fd: int, event: int) -> None:
            targets = self._targets
            target = targets.get(fd)
            # The event of another connection may have ended this one.
            if target is None:
                return
            if event & select.EPOLLIN:
                target.on_readable()
            elif event & _GONE:
                target.on_hang_up()
                return
            if event & select.EPOLLOUT and targets.get(fd) is target:
                target.on_writable()


class LoopPoller:
    """A poller over the event loop, for few connections.

    It notices a peer's disconnect only when reading resumes. The lengths of its iterations are not measured.
    """

    __slots__ = ("_loop", "_reading", "_targets", "_writing", "lengths")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._targets: dict[int, Pollable] = {}
        self._reading: set[int] = set()
        self._writing: set[int] = set()
        self.lengths = SliceLengths("sockets")

    def is_behind(self) -> bool:
        return False

    def watch(self, fd: int, target: Pollable) -> None:
        self._targets[fd] = target
        self._reading.add(fd)
        self._loop.add_reader(fd, target.on_readable)

    def change(self, fd: int, *, read: bool, write: bool) -> None:
        target = self._targets[fd]
        if read and fd not in self._reading:
            self._reading.add(fd)
            self._loop.add_reader(fd, target.on_readable)
        elif not read and fd in self._reading:
            self._reading.discard(fd)
            self._loop.remove_reader(fd)
        if write and fd not in self._writing:
            self._writing.add(fd)
            self._loop.add_writer(fd, target.on_writable)
        elif not write and fd in self._writing:
            self._writing.discard(fd)
            self._loop.remove_writer(fd)

    def forget(self, fd: int) -> None:
        self._targets.pop(fd, None)
        if fd in self._reading:
            self._reading.discard(fd)
            self._loop.remove_reader(fd)
        if fd in self._writing:
            self._writing.discard(fd)
            self._loop.remove_writer(fd)

    def close(self) -> None:
        for fd in list(self._targets):
            self.forget(fd)


def default_poller(loop: AbstractEventLoop, now: Callable[[], float], slice_s: float) -> Poller:
    return EpollPoller(loop, now, slice_s) if hasattr(select, "epoll") else LoopPoller(loop)
