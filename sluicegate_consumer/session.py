"""One registration with a coordinator: its calls, pending answers, suspicion, and the end of its session.

Pure. Frames come in without their size, and go out complete. Raises ProtocolError if the coordinator violates the
protocol, RegistrationRefusedError if it will never accept the consumer, and TryAgain if it may accept it later.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from kafka_bytes.push.messages import PingRequest as Ping
from kafka_bytes.push.messages import StopFetcherRequest as StopFetcher
from sluicegate_consumer.errors import Code, ProtocolError, RegistrationRefusedError, code_name
from sluicegate_consumer.wire import push
from sluicegate_consumer.wire.push import Call, PartitionOffset, Registration, StartFetcher

Offsets = Callable[[], Sequence[PartitionOffset]]

_REFUSED: Mapping[int, str] = {
    Code.INVALID_GROUP_ID: "the group id is empty or too long",
    Code.INVALID_SESSION_TIMEOUT: "session_timeout_s is not within the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms, or longer than three times its connections.max.idle.ms",
    Code.INVALID_TOPIC_EXCEPTION: "the subscription has an invalid topic name",
    Code.INVALID_REGULAR_EXPRESSION: "the pattern is not an expression of RE2, or it is too large",
    Code.INVALID_REQUEST: "the coordinator found the registration invalid",
    Code.INCONSISTENT_GROUP_PROTOCOL: "the group has members that use another protocol; they have to leave first",
    Code.GROUP_MAX_SIZE_REACHED: "the group is full (group.max.size), or the coordinator has too many groups",
    Code.GROUP_AUTHORIZATION_FAILED: "the consumer may not read in this group",
    Code.UNSUPPORTED_VERSION: "the broker does not support the push protocol",
}
_NOT_THERE_YET = {Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}


class TryAgain(Exception):  # noqa: N818 - it is not an error of any side
    """Error after which the consumer asks for the coordinator again, after a while."""


class NotThereYet(TryAgain):
    """Error if a healthy broker reports another coordinator, or none yet: the coordinator will be available soon."""


class IdTakenError(TryAgain):
    """Error for a consumer's ID that is already registered, perhaps by its own last connection."""


def check_code(code: int) -> None:
    """Raise the error for an error code of ClusterMetadata or RegisterConsumer; do nothing for no error."""
    if code == Code.NONE:
        return
    if code == Code.UNRELEASED_INSTANCE_ID:
        raise IdTakenError("the consumer's id is already registered")
    if code in _NOT_THERE_YET:
        raise NotThereYet(code_name(code))
    if code == Code.COORDINATOR_LOAD_IN_PROGRESS:
        raise TryAgain(code_name(code))
    why = _REFUSED.get(code, "the coordinator gives no reason")
    raise RegistrationRefusedError(code, f"the coordinator refuses the consumer with {code_name(code)}: {why}")


class Phase(Enum):
    """The state of a consumer's registration with its group's coordinator."""

    REGISTERING = auto()
    """RegisterConsumer was sent. Its response leads to IDLE."""
    IDLE = auto()
    """The consumer is registered, and stopped. StartFetcher leads to READING."""
    READING = auto()
    """The consumer reads. StopFetcher leads to STOPPING."""
    STOPPING = auto()
    """StopFetcher was received, perhaps repeatedly if the answer is slow. The last answer leads to IDLE."""


class Session:
    """The state of one connection to the coordinator: the coordinator's calls and the consumer's answers."""

    def __init__(self, registration: Registration, now_s: float) -> None:
        self.phase = Phase.REGISTERING
        self._registration = registration
        self._heard_s = now_s
        self._stops = 0
        """Number of unanswered StopFetchers."""
        self._closing = False
        self._last_told: type[Ping] | type[StopFetcher] | None = None
        """Type of the last call answered with offsets since the session began to close."""
        self._may_end = False

    @property
    def suspected_s(self) -> float:
        """Return the time from which the coordinator counts as dead unless it sends a frame before.

        The time is in seconds of the clock that `receive` gets: one session timeout after the coordinator's last frame.
        """
        return self._heard_s + self._registration.session_timeout_ms / 1000

    @property
    def may_end(self) -> bool:
        """Return whether the session is closing and the coordinator has the last offsets."""
        return self._may_end

    def silence(self) -> TryAgain:
        """Return the error to raise when the coordinator is suspected."""
        return TryAgain(f"the coordinator has sent nothing for a session, {self._registration.session_timeout_ms} ms")

    def close(self, *, has_offsets: bool) -> None:
        """Begin to close the session: offsets sent from now on are final.

        Without offsets to send, the session may end at once.
        """
        self._closing = True
        if not has_offsets:
            self._may_end = True

    def receive(self, raw: memoryview, now_s: float) -> Call | None:
        """Process a frame from the coordinator.

        Return the coordinator's call; None for the response to the registration.

        A frame that is read too late does not count: this process was suspended, and the coordinator may have given up
        the consumer.
        """
        if now_s > self.suspected_s:
            raise self.silence()
        if self.phase is Phase.REGISTERING:
            check_code(push.read_registered(raw))
            self._heard_s = now_s
            self.phase = Phase.IDLE
            return None
        call = push.read_call(raw)
        if call.consumer_id != self._registration.consumer_id:
            raise ProtocolError(
                f"the coordinator sent a call for consumer {call.consumer_id[:100]!r} on this connection"
            )
        self._heard_s = now_s
        self._see_what_arrived(call)
        if isinstance(call, StopFetcher):
            self._stops += 1
            self.phase = Phase.STOPPING
        elif isinstance(call, StartFetcher):
            if self.phase is Phase.STOPPING:
                raise ProtocolError("the coordinator sent StartFetcher before its StopFetcher was answered")
            self.phase = Phase.READING
        return call

    def _see_what_arrived(self, call: Call) -> None:
        """Check whether the last offsets have arrived.

        A ping that is not a retry comes after the ones before were answered; a start, after all consumers have stopped.
        """
        if self._last_told is Ping:
            self._may_end = self._may_end or (isinstance(call, Ping) and call.num_retries == 0)
        if self._last_told is StopFetcher:
            self._may_end = self._may_end or isinstance(call, StartFetcher)

    def answer_ping(self, offsets: Offsets) -> bytes:
        return push.ping_answer(self._registration.consumer_id, self._report(Ping, offsets))

    def answer_stop(self, offsets: Offsets) -> bytes:
        self._stops -= 1
        if not self._stops:
            self.phase = Phase.IDLE
        return push.stop_answer(self._registration.consumer_id, self._report(StopFetcher, offsets))

    def answer_start(self) -> bytes:
        return push.start_answer(self._registration.consumer_id)

    def _report(self, answered: type[Ping] | type[StopFetcher], offsets: Offsets) -> Sequence[PartitionOffset] | None:
        if not self._registration.auto_commit:
            return None
        if self._closing:
            self._last_told = answered
        return offsets()
