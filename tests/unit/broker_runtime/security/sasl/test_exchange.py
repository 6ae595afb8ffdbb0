"""The table of the exchange is complete, and the exchange follows it: any order of calls ends in a known state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.sasl.exchange import (
    TABLE,
    Limits,
    SaslEvent,
    SaslExchange,
    SaslSequenceError,
    SaslState,
)
from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, OffloadedCheck, SaslRefusedError, Step

NO_LIMITS = Limits({})


class Scripted:
    """A mechanism that takes the step that the token names."""

    def step(self, token: bytes, /) -> Step:
        name, _, rest = token.decode().partition(":")
        if name == "user":
            user, _, expires = rest.partition("@")
            return Authenticated(user, b"done", int(expires) if expires else None)
        if name == "more":
            return Challenge(b"more")
        if name == "check":
            return OffloadedCheck(lambda: rest)
        raise SaslRefusedError("refused")

    def checked(self, result: object, /) -> Step:
        return self.step(str(result).encode())


def exchange(limits: Limits = NO_LIMITS) -> SaslExchange:
    return SaslExchange({"A": Scripted, "B": Scripted}, limits)


def authenticated(limits: Limits = NO_LIMITS, token: bytes = b"user:alice") -> SaslExchange:
    started = exchange(limits)
    assert started.handshake("A", 0.0, raw=False)
    started.token(token, 0.0, 0)
    return started


def test_every_state_is_reached_and_left_by_failure_at_least() -> None:
    assert set(TABLE.values()) == set(SaslState)
    assert {event for _, event in TABLE} == set(SaslEvent)
    assert all(TABLE[state, SaslEvent.FAILURE] is SaslState.FAILED for state in SaslState)
    assert [event for state, event in TABLE if state is SaslState.FAILED] == [SaslEvent.FAILURE]


def test_versions_then_handshake_then_tokens() -> None:
    one = exchange()
    assert one.accepts_versions
    one.versions_answered(good=False)
    assert one.accepts_versions
    one.versions_answered(good=True)
    assert not one.accepts_versions
    assert one.accepts_handshake
    assert one.handshake("A", 0.0, raw=False)
    assert not one.accepts_handshake
    assert one.token(b"more", 0.0, 0) == Challenge(b"more")
    assert one.token(b"user:alice", 0.0, 0) == Authenticated("alice", b"done")
    assert one.state is SaslState.COMPLETE
    assert one.session is not None
    assert (one.session.name, one.session.ends_s, one.session.lifetime_ms) == ("alice", None, 0)
    assert not one.may_authenticate_again(100.0)


def test_a_mechanism_that_is_not_enabled_ends_it() -> None:
    one = exchange()
    assert not one.handshake("C", 0.0, raw=False)
    assert one.state is SaslState.FAILED


@pytest.mark.parametrize("raw", [False, True])
def test_a_check_continues_where_it_began(raw: bool) -> None:
    one = exchange()
    one.handshake("A", 0.0, raw=raw)
    step = one.token(b"check:user:alice", 0.0, 0)
    assert isinstance(step, OffloadedCheck)
    assert one.state.name == "CHECKING"
    with pytest.raises(SaslSequenceError):
        one.token(b"more", 0.0, 0)
    one.checked(step.work(), 0.0, 0)
    assert one.state is SaslState.COMPLETE


def test_a_refusal_ends_it() -> None:
    one = exchange()
    one.handshake("A", 0.0, raw=False)
    with pytest.raises(SaslRefusedError):
        one.token(b"no", 0.0, 0)
    assert one.state is SaslState.FAILED


@pytest.mark.parametrize(
    ("maximum_ms", "token", "lifetime_ms", "ends_s"),
    [
        (0, b"user:a", 0, None),
        (5_000, b"user:a", 5_000, 5.0),
        (0, b"user:a@3000", 2_000, 2.0),
        (5_000, b"user:a@3000", 2_000, 2.0),
        (5_000, b"user:a@9000", 5_000, 5.0),
        (0, b"user:a@500", 0, 0.0),
    ],
)
def test_the_lifetime_is_the_shorter_one(maximum_ms: int, token: bytes, lifetime_ms: int, ends_s: float | None) -> None:
    one = exchange(Limits({"A": maximum_ms}))
    one.handshake("A", 0.0, raw=False)
    one.token(token, 0.0, 1_000)
    assert one.session is not None
    assert (one.session.lifetime_ms, one.session.ends_s) == (lifetime_ms, ends_s)
    assert one.has_ended(5.1) == (ends_s is not None)
    assert not one.has_ended(ends_s or 0.0)


def test_the_same_client_authenticates_again_but_not_faster_than_once_a_second() -> None:
    one = authenticated(Limits({"A": 5_000}))
    assert one.may_authenticate_again(0.1)
    one.handshake("A", 0.1, raw=False)
    assert one.authenticates_again
    one.token(b"user:alice", 0.2, 0)
    assert not one.may_authenticate_again(1.05)
    assert one.may_authenticate_again(1.2)
    assert not one.has_ended(5.1)


def test_another_user_or_mechanism_is_refused() -> None:
    one = authenticated(Limits({"A": 5_000}))
    one.handshake("A", 2.0, raw=False)
    with pytest.raises(SaslRefusedError, match="Cannot change principals"):
        one.token(b"user:bob", 2.0, 0)
    two = authenticated(Limits({"A": 5_000}))
    assert two.handshake("B", 2.0, raw=False)
    assert two.state is SaslState.WRONG_MECHANISM


ACTS = st.sampled_from(
    ["versions", "unsupported", "A", "B", "C", "raw", "user:a", "user:b", "more", "no", "check:more"]
)


@given(st.lists(ACTS, max_size=20))
def test_any_order_of_requests_ends_in_a_known_state(acts: list[str]) -> None:
    one, now_s = exchange(Limits({"A": 1_000, "B": 0})), 0.0
    for act in acts:
        now_s += 0.5
        before = one.state
        try:
            if act in ("versions", "unsupported"):
                one.versions_answered(good=act == "versions")
            elif act in ("A", "B", "C", "raw"):
                if one.accepts_handshake or one.may_authenticate_again(now_s):
                    one.handshake("A" if act == "raw" else act, now_s, raw=act == "raw")
            else:
                step = one.token(act.encode(), now_s, 0)
                if isinstance(step, OffloadedCheck):
                    one.checked(step.work(), now_s, 0)
        except SaslSequenceError:
            assert one.state is before
        except SaslRefusedError:
            assert one.state is SaslState.FAILED
        assert (one.state is SaslState.COMPLETE) <= (one.session is not None)
        if before is SaslState.FAILED:
            assert one.state is SaslState.FAILED
