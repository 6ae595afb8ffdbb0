"""One registration with a coordinator: what it asked, what it is still owed, when it is suspected, when all is told.

Pure. Frames come in without their size, and go out whole. Raises ProtocolError where the coordinator does what it may
not, RegistrationRefusedError where it will never take the consumer, and TryAgain where it may later.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from sluicegate_consumer.errors import Code, ProtocolError, RegistrationRefusedError, code_name
from sluicegate_consumer.wire import push
from sluicegate_consumer.wire.push import Call, PartitionOffset, Ping, Registration, StartFetcher, StopFetcher

Offsets = Callable[[], Sequence[PartitionOffset]]

_REFUSED: Mapping[int, str] = {
    Code.INVALID_GROUP_ID: "the group id is empty or too long",
    Code.INVALID_SESSION_TIMEOUT: "session_timeout_s is not within the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms, or longer than three times its connections.max.idle.ms",
    Code.INVALID_TOPIC_EXCEPTION: "the subscription names what cannot be a topic",
    Code.INVALID_REGULAR_EXPRESSION: "the pattern is no expression of RE2, or too large a one",
    Code.INVALID_REQUEST: "the coordinator does not understand the registration",
    Code.INCONSISTENT_GROUP_PROTOCOL: "the group has members that speak another protocol; they have to leave first",
    Code.GROUP_MAX_SIZE_REACHED: "the group is full (group.max.size), or the coordinator has too many groups",
    Code.GROUP_AUTHORIZATION_FAILED: "the consumer may not read in this group",
    Code.UNSUPPORTED_VERSION: "the broker does not speak the push protocol",
}
_NOT_THERE_YET = {Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}


class TryAgain(Exception):  # noqa: N818 - it is no error of anybody's
    """Ask for the coordinator again, after a while."""


class NotThereYet(TryAgain):
    """A broker that is well says that the coordinator is another, or none yet: it will be there before long."""


class IdTakenError(TryAgain):
    """The consumer's id is registered, perhaps by its own last connection."""


def check_code(code: int) -> None:
    """An error code of ClusterMetadata or RegisterConsumer."""
    if code == Code.NONE:
        return
    if code == Code.UNRELEASED_INSTANCE_ID:
        raise IdTakenError("the consumer's id is taken")
    if code in _NOT_THERE_YET:
        raise NotThereYet(code_name(code))
    if code == Code.COORDINATOR_LOAD_IN_PROGRESS:
        raise TryAgain(code_name(code))
    why = _REFUSED.get(code, "it does not say why")
    raise RegistrationRefusedError(code, f"the coordinator refuses the consumer with {code_name(code)}: {why}")


class Phase(Enum):
    """Where a registration stands."""

    REGISTERING = auto()
    """RegisterConsumer was sent. Its answer leads to IDLE."""
    IDLE = auto()
    """Registered, and stopped. StartFetcher leads to READING."""
    READING = auto()
    """StopFetcher leads to STOPPING."""
    STOPPING = auto()
    """StopFetcher has come, again perhaps where the answer took long. The answer to the last leads to IDLE."""


class Session:
    """Owns what was called and answered on one connection."""

    def __init__(self, registration: Registration, now_s: float) -> None:
        self.phase = Phase.REGISTERING
        self._registration = registration
        self._heard_s = now_s
        self._stops = 0
        """StopFetchers without an answer."""
        self._closing = False
        self._last_told: type[Ping] | type[StopFetcher] | None = None
        """What was answered with the last offsets, once it is closing."""
        self._may_end = False

    @property
    def suspected_s(self) -> float:
        """When the coordinator is suspected to be dead, if nothing comes until then."""
        return self._heard_s + self._registration.session_timeout_ms / 1000

    @property
    def may_end(self) -> bool:
        """It is closing, and the coordinator has its last offsets."""
        return self._may_end

    def silence(self) -> TryAgain:
        """To be raised when the coordinator is suspected."""
        return TryAgain(f"nothing was heard of it for a session, {self._registration.session_timeout_ms} ms")

    def close(self, *, has_offsets: bool) -> None:
        """From now on what is told is the last. Where there is nothing to tell it may end at once."""
        self._closing = True
        if not has_offsets:
            self._may_end = True

    def receive(self, raw: memoryview, now_s: float) -> Call | None:
        """A frame; None is the answer to the registration.

        One that is looked at too late does not count: this process has been away, and may have been given up.
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
            raise ProtocolError(f"the coordinator calls consumer {call.consumer_id[:100]!r} here")
        self._heard_s = now_s
        self._see_what_arrived(call)
        if isinstance(call, StopFetcher):
            self._stops += 1
            self.phase = Phase.STOPPING
        elif isinstance(call, StartFetcher):
            if self.phase is Phase.STOPPING:
                raise ProtocolError("the coordinator says start, and its stop was not answered")
            self.phase = Phase.READING
        return call

    def _see_what_arrived(self, call: Call) -> None:
        """A first ping comes when those before it were answered; a start, when all have said that they stopped."""
        if self._last_told is Ping:
            self._may_end = self._may_end or (isinstance(call, Ping) and call.num_retries == 0)
        if self._last_told is StopFetcher:
            self._may_end = self._may_end or isinstance(call, StartFetcher)

    def answer_ping(self, offsets: Offsets) -> bytes:
        return push.ping_answer(self._registration.consumer_id, self._tell(Ping, offsets))

    def answer_stop(self, offsets: Offsets) -> bytes:
        self._stops -= 1
        if not self._stops:
            self.phase = Phase.IDLE
        return push.stop_answer(self._registration.consumer_id, self._tell(StopFetcher, offsets))

    def answer_start(self) -> bytes:
        return push.start_answer(self._registration.consumer_id)

    def _tell(self, answered: type[Ping] | type[StopFetcher], offsets: Offsets) -> Sequence[PartitionOffset] | None:
        if not self._registration.auto_commit:
            return None
        if self._closing:
            self._last_told = answered
        return offsets()
