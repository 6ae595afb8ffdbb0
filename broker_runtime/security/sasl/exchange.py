"""The SASL exchange of one connection: which frame is allowed when, and what follows. Pure; times are given.

KIP-43 and KIP-152 define the requests, KIP-368 the authentication of an open connection again. `SaslExchange` follows
`TABLE`. It may begin again from COMPLETE, any number of times.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from broker_runtime.security.sasl.mechanism import (
    Authenticated,
    Challenge,
    OffloadedCheck,
    SaslRefusedError,
    ServerMechanism,
    Step,
)

REAUTHENTICATION_MIN_S = 1.0
"""Least time in seconds between two beginnings of an authentication on a connection, as in Apache Kafka."""


class SaslState(Enum):
    """The state of a connection's SASL exchange. The values are for messages."""

    START = "waits for ApiVersions or SaslHandshake"
    VERSIONS_SENT = "waits for SaslHandshake"
    TOKENS = "waits for SaslAuthenticate"
    RAW_TOKENS = "waits for a token without a header"
    CHECKING = "checks a token"
    WRONG_MECHANISM = "refuses the next request, because the mechanism has changed"
    COMPLETE = "is authenticated"
    FAILED = "has failed"


class SaslEvent(Enum):
    """An event of a SASL exchange. The values are for messages."""

    VERSIONS = "an ApiVersions request was answered"
    VERSIONS_REFUSED = "an ApiVersions request was answered with an error"
    HANDSHAKE = "a handshake has chosen a mechanism"
    RAW_HANDSHAKE = "a handshake of version 0 has chosen a mechanism"
    OTHER_MECHANISM = "a handshake has chosen another mechanism than before"
    CHALLENGED = "a token was answered"
    CHECK = "a token is being checked"
    CHECKED = "the check of a token has ended"
    RAW_CHECKED = "the check of a token without a header has ended"
    SUCCESS = "the client has proved its identity"
    FAILURE = "the client has failed, or sent something else"


class SaslSequenceError(RuntimeError):
    """Error for an event that is not allowed in the state of the exchange: a bug in the broker."""


def _table() -> Iterator[tuple[SaslState, SaslEvent, SaslState]]:
    state, event = SaslState, SaslEvent
    yield state.START, event.VERSIONS, state.VERSIONS_SENT
    yield state.START, event.VERSIONS_REFUSED, state.START
    for begin in (state.START, state.VERSIONS_SENT, state.COMPLETE):
        yield begin, event.HANDSHAKE, state.TOKENS
        yield begin, event.RAW_HANDSHAKE, state.RAW_TOKENS
    yield state.COMPLETE, event.OTHER_MECHANISM, state.WRONG_MECHANISM
    for tokens in (state.TOKENS, state.RAW_TOKENS):
        yield tokens, event.CHALLENGED, tokens
        yield tokens, event.CHECK, state.CHECKING
        yield tokens, event.SUCCESS, state.COMPLETE
    yield state.CHECKING, event.CHECKED, state.TOKENS
    yield state.CHECKING, event.RAW_CHECKED, state.RAW_TOKENS
    for each in state:
        yield each, event.FAILURE, state.FAILED


TABLE: Mapping[tuple[SaslState, SaslEvent], SaslState] = {(state, event): after for state, event, after in _table()}


@dataclass(frozen=True, slots=True)
class Session:
    """The result of a successful exchange: the user, the mechanism, and the end of the session in seconds.

    An end of None means that the session does not end.
    """

    name: str
    mechanism: str
    ends_s: float | None
    lifetime_ms: int
    """Lifetime in milliseconds, for the answer to the client; 0 if the session does not end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of SASL sessions: their lifetime in milliseconds, by mechanism.

    With 0 or without a value, sessions do not end.
    """

    reauthentication_ms: Mapping[str, int]


class SaslExchange:
    """The SASL exchange of one connection: its state, its mechanism while it runs, and the proved session.

    `mechanisms` creates the server's side of each enabled mechanism. `now_s` is the monotonic clock in seconds, and
    `wall_ms` the time in milliseconds since 1970.
    """

    __slots__ = (
        "_began_s",
        "_limits",
        "_mechanism",
        "_mechanisms",
        "_raw",
        "authenticates_again",
        "chosen",
        "session",
        "state",
    )

    def __init__(self, mechanisms: Mapping[str, Callable[[], ServerMechanism]], limits: Limits) -> None:
        self.state = SaslState.START
        self.chosen: str | None = None
        """Name of the mechanism that the last handshake has chosen."""
        self.session: Session | None = None
        """The session that was proved last; kept while the client authenticates again."""
        self.authenticates_again = False
        """Whether the running exchange follows an earlier one on this connection."""
        self._mechanisms = mechanisms
        self._limits = limits
        self._mechanism: ServerMechanism | None = None
        self._raw = False
        self._began_s: float | None = None
        """Time at which the client last began to authenticate again."""

    def _transition(self, event: SaslEvent) -> None:
        after = TABLE.get((self.state, event))
        if after is None:
            raise SaslSequenceError(f"the exchange {self.state.value}, but {event.value}")
        self.state = after

    @property
    def enabled(self) -> Collection[str]:
        return tuple(self._mechanisms)

    @property
    def raw(self) -> bool:
        """Return whether tokens have no header, because the client has sent the handshake's version 0."""
        return self._raw

    @property
    def accepts_versions(self) -> bool:
        """Return whether an ApiVersions request is answered now.

        It is answered before the handshake, until one request has succeeded.
        """
        return self.state is SaslState.START

    @property
    def accepts_handshake(self) -> bool:
        return self.state in (SaslState.START, SaslState.VERSIONS_SENT)

    def versions_answered(self, *, good: bool) -> None:
        self._transition(SaslEvent.VERSIONS if good else SaslEvent.VERSIONS_REFUSED)

    def may_authenticate_again(self, now_s: float) -> bool:
        """Return whether a handshake may begin again on the authenticated connection.

        It may if its session ends, and the last authentication is not too recent.
        """
        session, began_s = self.session, self._began_s
        if self.state is not SaslState.COMPLETE or session is None or session.ends_s is None:
            return False
        return began_s is None or now_s - began_s >= REAUTHENTICATION_MIN_S

    def handshake(self, mechanism: str, now_s: float, *, raw: bool) -> bool:
        """Begin the exchange with a mechanism. Return False, and fail, for a mechanism that is not enabled."""
        session = self.session
        if session is not None:
            self._began_s = now_s
            self.authenticates_again = True
        create = self._mechanisms.get(mechanism)
        if create is None:
            self.fail()
            return False
        if session is not None and mechanism != session.mechanism:
            self._transition(SaslEvent.OTHER_MECHANISM)
            return True
        self._raw, self.chosen, self._mechanism = raw, mechanism, create()
        self._transition(SaslEvent.RAW_HANDSHAKE if raw else SaslEvent.HANDSHAKE)
        return True

    def token(self, token: bytes, now_s: float, wall_ms: int) -> Challenge | OffloadedCheck | Authenticated:
        """Process the client's next token. Raises SaslRefusedError, after which the exchange has failed."""
        if self.state not in (SaslState.TOKENS, SaslState.RAW_TOKENS):
            raise SaslSequenceError(f"the exchange {self.state.value}, and takes no token")
        mechanism = self._mechanism
        assert mechanism is not None
        return self._processed(lambda: mechanism.step(token), now_s, wall_ms)

    def checked(self, result: object, now_s: float, wall_ms: int) -> Challenge | OffloadedCheck | Authenticated:
        """Process the result of a check of credentials.

        Raises SaslRefusedError, after which the exchange has failed.
        """
        self._transition(SaslEvent.RAW_CHECKED if self._raw else SaslEvent.CHECKED)
        mechanism = self._mechanism
        assert mechanism is not None
        return self._processed(lambda: mechanism.checked(result), now_s, wall_ms)

    def _processed(self, act: Callable[[], Step], now_s: float, wall_ms: int) -> Step:
        try:
            step = act()
            if isinstance(step, Authenticated):
                self._prove(step, now_s, wall_ms)
                return step
        except SaslRefusedError:
            self.fail()
            raise
        self._transition(SaslEvent.CHECK if isinstance(step, OffloadedCheck) else SaslEvent.CHALLENGED)
        return step

    def _prove(self, proof: Authenticated, now_s: float, wall_ms: int) -> None:
        mechanism, before = self.chosen, self.session
        assert mechanism is not None
        if before is not None and before.name != proof.name:
            text = "Cannot change principals during re-authentication"
            raise SaslRefusedError(text, text)
        self._transition(SaslEvent.SUCCESS)
        self._mechanism = None
        maximum_ms = self._limits.reauthentication_ms.get(mechanism, 0)
        lifetimes = [maximum_ms] if maximum_ms > 0 else []
        if proof.expires_ms is not None:
            lifetimes.append(max(proof.expires_ms - wall_ms, 0))
        lifetime_ms = min(lifetimes, default=None)
        ends_s = None if lifetime_ms is None else now_s + lifetime_ms / 1000
        self.session = Session(proof.name, mechanism, ends_s, lifetime_ms or 0)

    def fail(self) -> None:
        """End the exchange: nothing is accepted any more."""
        self._transition(SaslEvent.FAILURE)
        self._mechanism = None

    def has_ended(self, now_s: float) -> bool:
        """Return whether the session has ended, so that no ordinary request is served."""
        ends_s = None if self.session is None else self.session.ends_s
        return ends_s is not None and now_s > ends_s
