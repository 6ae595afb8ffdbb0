"""The access of clients to the coordinator of their group or transactional id in a simulated cluster."""

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import FIND_COORDINATOR
from tests.simulation.cluster.connection import ClusterView, Connection, Unanswered

_FIND_VERSION = 4
_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Coordinator:
    """The coordinator of one group, as one client knows it; with `key_type` 1 that of a transactional id."""

    def __init__(self, view: ClusterView, group: str, *, key_type: int = 0) -> None:
        self.group = group
        self._key_type = key_type
        self._view = view
        self._connection: Connection | None = None

    async def ask(self, api_key: int, version: int, content: Fields, timeout_s: float = 3.0) -> Entity:
        """Ask the coordinator. Raises Unanswered, also if no coordinator is known."""
        if self._connection is None:
            await self._find()
        assert self._connection is not None
        try:
            return await self._connection.ask(api_key, version, content, timeout_s)
        except Unanswered:
            self._connection = None
            raise

    def note(self, code: ErrorCode) -> None:
        """Note an error code of its answers; forget the coordinator if the group has another one."""
        if code in _ELSEWHERE:
            self._connection = None

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _find(self) -> None:
        content = {"key_type": self._key_type, "coordinator_keys": (self.group,)}
        answer = await self._view.ask_any(FIND_COORDINATOR, _FIND_VERSION, content)
        (found,) = answer.coordinators
        if int(found.error_code) != ErrorCode.NONE:
            raise Unanswered(ErrorCode(int(found.error_code)).name)
        # A separate connection: requests for another group's coordinator on the same connection would delay it.
        self._connection = Connection((str(found.host), int(found.port)))
