"""The controllers of a cluster in the order in which one broker tries them, round robin. Pure."""

from collections import deque
from collections.abc import Sequence

from broker_runtime.config.declaring.endpoints import ServerAddress


class ControllerRing:
    """The controllers of a cluster, at least one, in a ring. The first controller is the one to ask."""

    def __init__(self, servers: Sequence[ServerAddress]) -> None:
        self._servers = deque(servers)

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def first(self) -> ServerAddress:
        return self._servers[0]

    def pass_by(self, server: ServerAddress) -> None:
        """Move this controller to the end of the ring, unless the ring has turned to another one meanwhile."""
        if server == self._servers[0]:
            self._servers.rotate(-1)

    def turn_to(self, server: ServerAddress) -> bool:
        """Make this controller the first; return whether that is a change. A server outside the ring is ignored."""
        if server == self._servers[0] or server not in self._servers:
            return False
        self._servers.rotate(-self._servers.index(server))
        return True
