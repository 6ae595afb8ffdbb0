"""TLS handshakes in progress: their deadline, their principals, and their counts. Shell."""

from functools import partial

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection import HANDSHAKE_REFUSED, Connection
from broker_runtime.network.connection.connection_states import ConnectionEvent
from broker_runtime.network.sockets.transport import Transport
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.security.principal import Principal

_OVERDUE, _TOO_MANY = "tls-handshake-overdue", "tls-too-many-handshakes"
_CLOSES_PER_SLICE = 100


class Handshakes:
    """The connections whose handshake is not complete. `timeout_s` is the longest time of a handshake, in seconds.

    A handshake takes memory from the first byte of the client on. A listener has at most `at_once_max` of these: the
    next one ends the oldest, because honest clients answer soon. Handshakes count as in Apache Kafka: a refused
    handshake is a failed authentication, and one that was cut off is not. On a listener with SASL the handshake
    authenticates no client.
    """

    def __init__(self, timeout_s: float, at_once_max: int, counts: AuthenticationCounts) -> None:
        self._timeout_s = timeout_s
        self._at_once_max = at_once_max
        self._counts = counts
        self._open: dict[int, tuple[Connection, float]] = {}
        """Connections in a handshake, by id, each with its deadline, in the order of the deadlines."""

        self._begun: dict[str, dict[int, Connection]] = {}
        """Connections whose clients have sent something, by listener, the oldest first."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, connection: Connection, transport: Transport, now_s: float) -> None:
        """Watch the handshake of a new connection, if its transport has one."""
        if transport.on_handshake(partial(self._ended, connection), partial(self._has_begun, connection)):
            self._open[connection.id] = connection, now_s + self._timeout_s

    def _has_begun(self, connection: Connection) -> None:
        begun = self._begun.setdefault(connection.listener, {})
        begun[connection.id] = connection
        if len(begun) > self._at_once_max:
            oldest = next(iter(begun.values()))
            self._end(
                oldest, _TOO_MANY, "another TLS handshake began, and too many wait (sluicegate.tls.handshakes.max)"
            )

    def _end(self, connection: Connection, kind: str, text: str) -> None:
        connection.end(ConnectionEvent.OVERDUE, ProtocolError(kind, text))
        self.closed(connection.id)

    def _ended(self, connection: Connection, principal: Principal | None) -> None:
        self.closed(connection.id)
        if principal is not None:
            connection.principal = principal
            self._counts.count("successful_authentication_total", connection.listener)

    def refused(self, connection_id: int, listener: str, kind: str) -> None:
        """Count the end of a connection for a reason of this kind."""
        if kind == HANDSHAKE_REFUSED and connection_id in self._open:
            self._counts.count("failed_authentication_total", listener)

    def closed(self, connection_id: int) -> None:
        """Forget the handshake of a connection that has ended."""
        found = self._open.pop(connection_id, None)
        if found is not None:
            self._begun.get(found[0].listener, {}).pop(connection_id, None)

    def end_overdue(self, now_s: float) -> None:
        """Close connections whose deadline has passed, a bounded number at a time."""
        for _ in range(min(len(self._open), _CLOSES_PER_SLICE)):
            connection, deadline_s = next(iter(self._open.values()))
            if deadline_s > now_s:
                break
            text = (
                f"the TLS handshake has taken longer than {self._timeout_s:g} s (sluicegate.tls.handshake.timeout.ms)"
            )
            self._end(connection, _OVERDUE, text)
