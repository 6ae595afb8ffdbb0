"""Other limits than those in force, on connections that were written by hand. Times are milliseconds."""

from collections.abc import Sequence

import pytest

from audit_pipeline.what_if.attempts import ABANDONED, Attempt, Limit, Outcome, RecordedEvent
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.recording import recording_of
from audit_pipeline.what_if.replay import replay
from connection_limits.errors import InvalidLimitError
from connection_limits.settings import QuotaSettings, Strategy

ONE, OTHER = "10.0.0.1", "10.0.0.2"
BUCKET = QuotaSettings(strategy=Strategy.TOKEN_BUCKET)


class Log:
    """Writes events of the listener CLIENTS in the order of their calls."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    def _add(self, event: str, at_ms: int, ip: str, number: int, arrived_ms: int | None = None, **more: object) -> None:
        self.events.append(
            RecordedEvent(
                seq=len(self.events) + 1,
                event=event,
                listener="CLIENTS",
                client_ip=ip,
                client_port=number,
                connection_id=None if event in ("limited", "refused") else number,
                client_id=None,
                reason=str(more["reason"]) if "reason" in more else None,
                limit_quota=None,
                limit_key=str(more["limit"]) if "limit" in more else None,
                limit_entity=None,
                held_us=None,
                arrived_us=None if event == "closed" else (at_ms if arrived_ms is None else arrived_ms) * 1000,
                decided_us=at_ms * 1000,
                wall_us=at_ms * 1000,
            )
        )

    def open(self, at_ms: int, ip: str, number: int, open_ms: int | None = None) -> None:
        """Accept a connection; it ends after `open_ms`, if that is given."""
        self._add("accepted", at_ms, ip, number)
        if open_ms is not None:
            self._add("closed", at_ms + open_ms, ip, number)

    def waited(self, at_ms: int, ip: str, number: int, came_ms: int) -> None:
        """Accept a connection that was behind another one since `came_ms`."""
        self._add("accepted", at_ms, ip, number, came_ms)

    def left(self, at_ms: int, ip: str, number: int, came_ms: int, reason: str = ABANDONED) -> None:
        self._add("refused", at_ms, ip, number, came_ms, reason=reason)

    def rejected(self, at_ms: int, ip: str, number: int) -> None:
        self._add("refused", at_ms, ip, number, limit="max.connections.per.ip")

    def closed(self, at_ms: int, ip: str, number: int) -> None:
        self._add("closed", at_ms, ip, number)

    def tried(self, limits: LimitsToTry) -> Sequence[Attempt]:
        self.events = [
            event._replace(seq=number)
            for number, event in enumerate(sorted(self.events, key=lambda event: event.decided_us), 1)
        ]
        recording = recording_of(self.events)
        replay(recording, limits)
        return recording.attempts


def outcomes(attempts: Sequence[Attempt]) -> list[tuple[str, int]]:
    """The outcome of each attempt, and the time of that in milliseconds."""
    found = []
    for attempt in attempts:
        assert attempt.replayed is not None
        found.append((attempt.replayed.outcome.value, attempt.replayed.at_us // 1000))
    return found


def rate_of(rate: int) -> LimitsToTry:
    return LimitsToTry(BUCKET, {"clients": (None, rate)})


def test_clients_over_a_rate_wait_one_after_the_other() -> None:
    log = Log()
    for number in range(5):
        log.open(1_000 + number, ONE, number, 10)
    log.open(9_000, OTHER, 9)
    attempts = log.tried(rate_of(2))
    # A broker's timers wait a millisecond more than the limiter asks for.
    assert outcomes(attempts)[:5] == [
        ("accepted", 1_000),
        ("accepted", 1_001),
        ("accepted", 1_501),
        ("accepted", 2_001),
        ("accepted", 2_501),
    ]
    limits = [attempt.replayed.limit for attempt in attempts if attempt.replayed is not None]
    named = Limit("listener.name.clients.max.connection.creation.rate")
    assert limits == [None, None, named, named, named, None]


def test_a_connection_is_open_as_long_as_it_really_was() -> None:
    log = Log()
    log.open(1_000, ONE, 1, 500)
    log.open(1_100, ONE, 2, 500)
    log.open(1_300, ONE, 3, 500)
    log.open(9_000, ONE, 4)
    attempts = log.tried(LimitsToTry(QuotaSettings(max_connections=1)))
    assert outcomes(attempts) == [("accepted", 1_000), ("accepted", 1_500), ("accepted", 2_000), ("accepted", 9_000)]


def test_a_client_that_hung_up_leaves_at_that_time_and_the_next_takes_over_its_wait() -> None:
    log = Log()
    for number in range(2):
        log.open(1_000, ONE, number, 10)
    log.left(1_200, ONE, 2, came_ms=1_000)
    log.open(1_100, OTHER, 3, 10)
    log.open(9_000, OTHER, 9)
    # The third waits until 1,500; it leaves at 1,200, and its place in the rate is the fourth's.
    attempts = log.tried(rate_of(2))
    assert outcomes(attempts)[2:4] == [("left", 1_200), ("accepted", 1_501)]


def test_a_client_that_hung_up_late_is_accepted_by_a_weaker_limit() -> None:
    log = Log()
    log.left(1_900, ONE, 1, came_ms=1_000)
    log.open(9_000, OTHER, 9)
    assert outcomes(log.tried(rate_of(2)))[0] == ("accepted", 1_000)


def test_a_client_that_had_to_wait_for_a_moment_does_not_wait_without_a_limit() -> None:
    log = Log()
    log.open(1_000, ONE, 1, 10)
    log.waited(1_040, ONE, 2, came_ms=1_001)
    log.open(9_000, ONE, 9)
    assert outcomes(log.tried(LimitsToTry()))[1] == ("accepted", 1_001)


def test_connections_from_before_the_log_count() -> None:
    log = Log()
    log.open(1_000, ONE, 2, 100)
    log.closed(2_000, ONE, 1)
    log.open(3_000, ONE, 3)
    attempts = log.tried(LimitsToTry(QuotaSettings(max_connections_per_ip=1)))
    assert outcomes(attempts) == [("rejected", 1_000), ("accepted", 3_000)]


def test_a_rejected_connection_that_is_accepted_stays_open_as_long_as_others_of_its_address() -> None:
    log = Log()
    log.open(1_000, ONE, 1, 3_000)
    log.rejected(5_000, ONE, 2)
    log.open(6_000, OTHER, 3, 10)
    log.open(7_000, OTHER, 4, 10)
    log.open(8_500, OTHER, 5, 10)
    log.open(9_900, OTHER, 6)
    attempts = log.tried(LimitsToTry(QuotaSettings(max_connections=1)))
    assert outcomes(attempts)[1:] == [
        ("accepted", 5_000),
        ("accepted", 8_000),
        ("accepted", 8_010),
        ("accepted", 8_500),
        ("accepted", 9_900),
    ]


def test_connections_that_the_broker_closed_for_other_reasons_are_left_out() -> None:
    log = Log()
    log.left(1_000, ONE, 1, came_ms=1_000, reason="the broker is fenced")
    log.open(2_000, ONE, 2)
    recording = recording_of(log.events)
    assert (len(recording.attempts), recording.unasked) == (1, 1)


def test_the_inter_broker_listener_is_exempt_from_the_broker_s_limits() -> None:
    log = Log()
    log.open(1_000, ONE, 1)
    log.open(1_001, ONE, 2)
    log.open(2_000, ONE, 3)
    recording = recording_of(log.events)
    settings = QuotaSettings(max_connections=1, inter_broker_listener="CLIENTS")
    replay(recording, LimitsToTry(settings), ["OTHERS"])
    assert [attempt.recorded.at_us for attempt in recording.attempts] == [
        attempt.replayed.at_us for attempt in recording.attempts if attempt.replayed is not None
    ]
    alone = recording_of(log.events)
    replay(alone, LimitsToTry(settings))
    assert [one.replayed.outcome for one in alone.attempts if one.replayed is not None] == [
        Outcome.ACCEPTED,
        Outcome.WAITING,
        Outcome.WAITING,
    ]


def test_limits_that_brokers_refuse_are_an_error() -> None:
    log = Log()
    log.open(1_000, ONE, 1)
    with pytest.raises(InvalidLimitError, match=r"listener\.name\.clients\.max\.connection\.creation\.rate: 0 must be"):
        log.tried(rate_of(0))
