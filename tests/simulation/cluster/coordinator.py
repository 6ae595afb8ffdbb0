"""How clients of a simulated cluster find the coordinator of their group, and ask it."""

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import FIND_COORDINATOR
from tests.simulation.cluster.connection import ClusterView, Connection, Unanswered

_FIND_VERSION = 4
_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Coordinator:
    """Of one group, as one client knows it."""

    def __init__(self, view: ClusterView, group: str) -> None:
        self.group = group
        self._view = view
        self._connection: Connection | None = None

    async def ask(self, api_key: int, version: int, content: Fields, timeout_s: float = 3.0) -> Entity:
        """Raises Unanswered, also where no coordinator is known."""
        if self._connection is None:
            await self._find()
        assert self._connection is not None
        try:
            return await self._connection.ask(api_key, version, content, timeout_s)
        except Unanswered:
            self._connection = None
            raise

    def note(self, code: ErrorCode) -> None:
        """What it has answered: whether it is another's group."""
        if code in _ELSEWHERE:
            self._connection = None

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _find(self) -> None:
        content = {"key_type": 0, "coordinator_keys": (self.group,)}
        answer = await self._view.ask_any(FIND_COORDINATOR, _FIND_VERSION, content)
        (found,) = answer.coordinators
        if int(found.error_code) != ErrorCode.NONE:
            raise Unanswered(ErrorCode(int(found.error_code)).name)
        # Its own: who asks for the group of another on the same connection would wait for it.
        self._connection = Connection((str(found.host), int(found.port)))
