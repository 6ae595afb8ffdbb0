"""Authenticates the clients of SASL listeners (KIP-43, KIP-152, KIP-368), before and beside ordinary requests. Shell.

Until a client has authenticated, its frames come here and not to the dispatcher. `security.sasl.exchange` decides what
is allowed; this module reads frames, answers them, waits and counts.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from broker_runtime.apis.sasl.checks import Checks
from broker_runtime.apis.sasl.frames import SaslRequest, api_key_of, error_of, raw
from broker_runtime.apis.sasl.listener_settings import ListenerSasl
from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.security.authentication_counts import AuthenticationCounts
from broker_runtime.security.principal import UNAUTHENTICATED, USER, Principal
from broker_runtime.security.sasl.exchange import SaslExchange, SaslState
from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, OffloadedCheck, SaslRefusedError, Step
from broker_runtime.wire.handler import AuthenticatingConnection, FrameHandler, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

_OUT_OF_ORDER = "sasl-sequence"
_FAILED = "authentication-failed"
_EXPIRED = "session-expired"
_OVERDUE = "authentication-too-slow"


@dataclass(frozen=True, slots=True)
class AuthenticationLimits:
    """Limits of authentication: the largest frame in bytes; the delay of a failure and the timeout, both in seconds."""

    receive_bytes_max: int
    failure_delay_s: float
    timeout_s: float


class Authenticator:
    """Authenticates the clients of all SASL listeners of one server.

    `inner` handles the requests of authenticated clients, and ApiVersions. `listeners` has the settings by name.
    """

    def __init__(
        self,
        inner: FrameHandler,
        listeners: Mapping[str, ListenerSasl],
        limits: AuthenticationLimits,
        clock: Clock,
        checks: Checks,
        counts: AuthenticationCounts,
    ) -> None:
        self.inner = inner
        self.limits = limits
        self.clock = clock
        self.checks = checks
        self.counts = counts
        self._listeners = listeners
        self._call_later = asyncio.get_running_loop().call_later
        for name in listeners:
            counts.begin(name)

    def begin(self, connection: AuthenticatingConnection) -> None:
        """Let a new client authenticate: implement `wire.handler.Authenticate`."""
        sasl = self._listeners[connection.listener]
        connection.principal = UNAUTHENTICATED
        connection.limit_requests(self.limits.receive_bytes_max)
        exchange = SaslExchange(sasl.mechanisms, sasl.limits)
        connection.handler = _ConnectionExchange(self, exchange, self.give_up_later(connection)).handle

    def give_up_later(self, connection: AuthenticatingConnection) -> Callable[[], None]:
        """Schedule that a connection is refused if it has not authenticated in time, after sluicegate.sasl.timeout.ms.

        Returns a function that cancels the refusal; the end of the connection calls it.
        """
        give_up = self._call_later(self.limits.timeout_s, self._overdue, connection).cancel
        connection.closed.add(give_up)
        return give_up

    def _overdue(self, connection: AuthenticatingConnection) -> None:
        self.counts.count("failed_authentication_total", connection.listener)
        text = "the client has not authenticated within sluicegate.sasl.timeout.ms"
        connection.refuse(_OVERDUE, text)

    def after_delay(self, act: Callable[[], None]) -> Callable[[], None]:
        """Call `act` after the delay of a failure. Return a function that cancels the call."""
        return self._call_later(self.limits.failure_delay_s, act).cancel


class _ConnectionExchange:
    """Handles the frames of one connection. It has no reference to the connection, which refers to it."""

    __slots__ = ("_exchange", "_give_up", "_owner")

    def __init__(self, owner: Authenticator, exchange: SaslExchange, give_up: Callable[[], None]) -> None:
        """`give_up` cancels the timeout of the authentication. It is an observer of the connection's end."""
        self._owner = owner
        self._give_up = give_up
        self._exchange = exchange

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Handle a frame, see `wire.handler.FrameHandler`."""
        mine = cast("AuthenticatingConnection", connection)
        state = self._exchange.state
        if state is SaslState.COMPLETE:
            return self._complete(frame, mine)
        if state is SaslState.RAW_TOKENS:
            return self._token(None, bytes(frame), mine)
        if state is SaslState.FAILED:
            # The connection is about to be closed.
            return PendingReply()
        if state is SaslState.TOKENS:
            return self._authenticate(frame, mine)
        if state is SaslState.WRONG_MECHANISM:
            self._exchange.fail()
            return self._fail(mine, "the mechanism must not change when a client authenticates again", None)
        return self._begin(frame, mine)

    def _complete(self, frame: memoryview, connection: AuthenticatingConnection) -> Reply | PendingReply:
        """Handle a request of an authenticated client, whose session ends."""
        exchange, now_s = self._exchange, self._owner.clock.monotonic()
        if api_key_of(frame) == SASL_HANDSHAKE and exchange.may_authenticate_again(now_s):
            connection.limit_requests(self._owner.limits.receive_bytes_max)
            self._give_up = self._owner.give_up_later(connection)
            return self._handshake(SaslRequest(frame), connection)
        if exchange.has_ended(now_s):
            self._owner.counts.count("expired_connections_killed_total", connection.listener)
            raise ProtocolError(_EXPIRED, "the session of the client has ended; it has to authenticate again before")
        return self._owner.inner(frame, connection)

    def _begin(self, frame: memoryview, connection: AuthenticatingConnection) -> Reply | PendingReply:
        exchange, key = self._exchange, api_key_of(frame)
        if key == API_VERSIONS and exchange.accepts_versions:
            reply = self._owner.inner(frame, connection)
            good = isinstance(reply, PendingReply) or error_of(reply) == ErrorCode.NONE
            exchange.versions_answered(good=good)
            return reply
        if key != SASL_HANDSHAKE or not exchange.accepts_handshake:
            exchange.fail()
            raise ProtocolError(_OUT_OF_ORDER, f"API key {key} before the client has authenticated")
        return self._handshake(SaslRequest(frame), connection)

    def _handshake(self, request: SaslRequest, connection: AuthenticatingConnection) -> Reply | PendingReply:
        exchange = self._exchange
        if request.body is None:
            exchange.fail()
            raise ProtocolError(_OUT_OF_ORDER, f"SaslHandshake v{request.version} is not served (0 to 1)")
        mechanism = request.body.mechanism
        enabled = list(exchange.enabled)
        if exchange.handshake(mechanism, self._owner.clock.monotonic(), raw=request.version == 0):
            return request.answer({"error_code": ErrorCode.NONE, "mechanisms": enabled})
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        reply = request.answer({"error_code": code, "mechanisms": enabled})
        return self._fail(connection, f"the mechanism {mechanism[:64]!r} is not enabled", reply)

    def _authenticate(self, frame: memoryview, connection: AuthenticatingConnection) -> Reply | PendingReply:
        try:
            request = SaslRequest(frame)
        except ProtocolError as error:
            self._exchange.fail()
            return self._fail(connection, str(error), None)
        if request.key != SASL_AUTHENTICATE or request.body is None:
            self._exchange.fail()
            text = f"API key {request.key} v{request.version} instead of SaslAuthenticate"
            return self._fail(connection, text, request.illegal())
        return self._token(request, request.body.auth_bytes, connection)

    def _token(
        self, request: SaslRequest | None, token: bytes, connection: AuthenticatingConnection
    ) -> Reply | PendingReply:
        clock = self._owner.clock
        return self._stepped(
            lambda: self._exchange.token(token, clock.monotonic(), clock.wall_ms()), request, connection
        )

    def _stepped(
        self, act: Callable[[], Step], request: SaslRequest | None, connection: AuthenticatingConnection
    ) -> Reply | PendingReply:
        exchange = self._exchange
        mechanism = exchange.chosen
        try:
            step = act()
        except SaslRefusedError as error:
            shown = error.shown or _invalid_credentials(mechanism)
            return self._fail(connection, f"{mechanism}: {error}", None if request is None else request.failed(shown))
        if isinstance(step, OffloadedCheck):
            return self._check(step, request, connection)
        if isinstance(step, Challenge):
            return raw(step.token) if request is None else request.authenticated(step.token)
        return self._succeed(step, request, connection)

    def _check(
        self, check: OffloadedCheck, request: SaslRequest | None, connection: AuthenticatingConnection
    ) -> PendingReply:
        """Run a check outside of the event loop, and continue with its result."""
        reply = PendingReply()

        def checked(result: object) -> None:
            clock = self._owner.clock
            act = partial(self._exchange.checked, result)
            answer = self._stepped(lambda: act(clock.monotonic(), clock.wall_ms()), request, connection)
            if isinstance(answer, PendingReply):
                reply.on_cancel = answer.cancel
                answer.on_complete(reply.complete)
            else:
                reply.complete(answer)

        reply.on_cancel = self._owner.checks.run(check.work, checked)
        return reply

    def _succeed(self, step: Authenticated, request: SaslRequest | None, connection: AuthenticatingConnection) -> Reply:
        owner, exchange = self._owner, self._exchange
        session = exchange.session
        assert session is not None
        again = "reauthentication" if exchange.authenticates_again else "authentication"
        owner.counts.count(f"successful_{again}_total", connection.listener)
        if not exchange.authenticates_again and (request is None or not request.shows_lifetime):
            owner.counts.count("successful_authentication_no_reauth_total", connection.listener)
        if not exchange.authenticates_again:
            connection.principal = Principal(USER, session.name)
        self._forget_timeout(connection)
        connection.limit_requests(None)
        # Another handler serves a connection that is being closed.
        if session.ends_s is None and connection.handler == self.handle:
            connection.handler = owner.inner
        return raw(step.token) if request is None else request.authenticated(step.token, session.lifetime_ms)

    def _forget_timeout(self, connection: AuthenticatingConnection) -> None:
        self._give_up()
        connection.closed.remove(self._give_up)

    def _fail(self, connection: AuthenticatingConnection, why: str, reply: Reply | None) -> PendingReply:
        """Answer after the delay, if there is an answer, and close the connection after another delay.

        Clients that read the answer and the end of the stream at once would ignore the answer.
        """
        again = "reauthentication" if self._exchange.authenticates_again else "authentication"
        self._owner.counts.count(f"failed_{again}_total", connection.listener)
        self._forget_timeout(connection)
        pending = PendingReply()

        def end() -> None:
            text = f"the client has failed to authenticate: {why}"
            connection.refuse_in(self._owner.limits.failure_delay_s, _FAILED, text)
            pending.complete(reply)

        pending.on_cancel = self._owner.after_delay(end)
        return pending


def _invalid_credentials(mechanism: str | None) -> str:
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
