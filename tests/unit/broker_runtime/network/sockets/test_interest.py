"""The events of one connection's socket that a poller watches."""

from broker_runtime.network.sockets.interest import Interest
from tests.support.fakes.memory_transport import MemoryTransport
from tests.support.fakes.noted_poller import NotedPoller


class Target:
    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...

    def on_hang_up(self) -> None: ...

    def was_heavy(self, length_s: float) -> None: ...


class ReadingToWrite(MemoryTransport):
    """A transport in the middle of a handshake: it must read before it writes."""

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        return read or write, False


class CountingPoller(NotedPoller):
    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def change(self, fd: int, *, read: bool, write: bool) -> None:
        self.changes += 1
        super().change(fd, read=read, write=write)


def test_a_poller_is_told_of_changes_only_and_between_begin_and_end() -> None:
    poller = CountingPoller()
    interest = Interest(MemoryTransport(), poller)
    interest.read = False
    interest.update()
    assert (poller.watched, poller.changes) == (None, 0)
    interest.begin(Target())
    assert (poller.watched, poller.changes) == ((False, False), 1), "what had changed before is told"
    interest.write = True
    interest.update()
    interest.update()
    assert (poller.watched, poller.changes) == ((False, True), 2)
    interest.end()
    interest.read = True
    interest.update()
    assert (poller.watched, poller.changes) == (None, 2)


def test_a_transport_may_have_to_read_before_it_goes_on_writing() -> None:
    interest = Interest(ReadingToWrite(), NotedPoller())
    interest.begin(Target())
    assert not interest.reads_to_write
    interest.write = True
    interest.update()
    assert interest.reads_to_write
