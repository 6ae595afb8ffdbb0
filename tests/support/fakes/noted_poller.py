"""A Poller that records which events one connection asks for."""

from broker_runtime.network.sockets.poller import Pollable
from broker_runtime.slicing.slice_lengths import SliceLengths


class NotedPoller:
    """A Poller that notes its calls. `watched` is (reading, writing); None while nothing is watched."""

    def __init__(self) -> None:
        self.watched: tuple[bool, bool] | None = None
        self.lengths = SliceLengths("sockets")

    def is_behind(self) -> bool:
        return False

    def watch(self, fd: int, target: Pollable) -> None:
        self.watched = (True, False)

    def change(self, fd: int, *, read: bool, write: bool) -> None:
        self.watched = (read, write)

    def forget(self, fd: int) -> None:
        self.watched = None

    def close(self) -> None:
        raise AssertionError("not by a connection")
