"""Tells connections when their sockets are ready; level-triggered. Shell.

`EpollPoller` keeps one epoll of its own, itself watched by the event loop: a new connection costs one system call
and no object of the loop, which is what a connection storm is made of. What one turn of the loop has no time for is
told in the next one, before anything newer. `LoopPoller` does the same with the loop's own readers and writers where
there is no epoll (macOS); its turns are as long as the sockets that are ready make them. Neither knows what a
connection is.
"""

import select
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

from broker_runtime.network.settings import HEAVY_S
from broker_runtime.turn_lengths import TurnLengths

_MAX_EVENTS = 256


class Pollable(Protocol):
    """Whom a poller tells of its descriptor."""

    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...

    def was_heavy(self) -> None:
        """What it was told has held the event loop for HEAVY_S."""
        ...

    def on_hang_up(self) -> None:
        """The connection is gone in both directions, told while nothing is read."""
        ...


class Poller(Protocol):
    """Descriptors, and who is told that they are ready."""

    @property
    def lengths(self) -> TurnLengths:
        """Of its turns."""
        ...

    def is_behind(self) -> bool:
        """Whether sockets are ready that a turn had no time for."""
        ...

    def watch(self, fd: int, target: Pollable) -> None:
        """Begin to read from `fd`."""
        ...

    def change(self, fd: int, *, read: bool, write: bool) -> None: ...

    def forget(self, fd: int) -> None:
        """To be called before `fd` is closed."""
        ...

    def close(self) -> None: ...


if hasattr(select, "epoll"):
    _GONE = select.EPOLLHUP | select.EPOLLERR

    class EpollPoller:
        """`now` gives seconds; a turn ends with the target that is told when `turn_s` is over."""

        __slots__ = ("_epoll", "_loop", "_now", "_targets", "_turn_s", "_untold", "lengths")

        def __init__(self, loop: AbstractEventLoop, now: Callable[[], float], turn_s: float) -> None:
            self._loop = loop
            self._now = now
            self._turn_s = turn_s
            self._targets: dict[int, Pollable] = {}
            self._untold: list[tuple[int, int]] = []
            self.lengths = TurnLengths("sockets")
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._on_events)

        def watch(self, fd: int, target: Pollable) -> None:
            self._targets[fd] = target
            self._epoll.register(fd, select.EPOLLIN)

        def change(self, fd: int, *, read: bool, write: bool) -> None:
            # The end of the peer's side is met by reading, after what was sent before it: no EPOLLRDHUP.
            wanted = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0)
            self._epoll.modify(fd, wanted)

        def is_behind(self) -> bool:
            return bool(self._untold)

        def forget(self, fd: int) -> None:
            # Closing a descriptor takes it out of the epoll; a system call of its own is not needed.
            self._targets.pop(fd, None)
            if self._untold:
                # The next connection may get the same descriptor.
                self._untold = [event for event in self._untold if event[0] != fd]

        def close(self) -> None:
            self._targets.clear()
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

        def _on_events(self) -> None:
            begin_s = now_s = self._now()
            stop_s = begin_s + self._turn_s
            fd = -1
            events = self._untold or self._epoll.poll(0, _MAX_EVENTS)
            self._untold = []
            count = len(events)
            for position, (fd, event) in enumerate(events, 1):
                self._tell(fd, event)
                told_s, now_s = now_s, self._now()
                if now_s - told_s >= HEAVY_S and (target := self._targets.get(fd)) is not None:
                    target.was_heavy()
                if now_s >= stop_s and position < count:
                    # What is left is ready still, so the loop comes back in its next turn.
                    self._untold = [event for event in events[position:] if event[0] in self._targets]
                    break
            self.lengths.note(now_s - begin_s, now_s, self._targets.get(fd))

        def _tell(self, fd: int, event: int) -> None:
            targets = self._targets
            target = targets.get(fd)
            # Another connection's turn may have ended this one.
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
    """A peer that goes while nothing is read is noticed when reading goes on. Its turns are not measured."""

    __slots__ = ("_loop", "_reading", "_targets", "_writing", "lengths")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._targets: dict[int, Pollable] = {}
        self._reading: set[int] = set()
        self._writing: set[int] = set()
        self.lengths = TurnLengths("sockets")

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


def default_poller(loop: AbstractEventLoop, now: Callable[[], float], turn_s: float) -> Poller:
    return EpollPoller(loop, now, turn_s) if hasattr(select, "epoll") else LoopPoller(loop)
