"""Counts by limit and client, beside what really happened."""

from audit_pipeline.what_if.attempts import Attempt, Course, Limit, Outcome, RecordedEvent
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.summary import Summary, unknown

RATE = Limit("listener.name.clients.max.connection.creation.rate")
GROUP = Limit("max_connections", "connection-group=shop/range", "shop/range")
LIMITS = LimitsToTry(names={(RATE.key, None): "shop/clients"})


def attempt(ip: str, recorded: Course, replayed: Course) -> Attempt:
    event = RecordedEvent(1, "accepted", "C", ip, 1, 1, None, None, None, None, None, None, 1_000_000, 1_000_000, 7)
    made = Attempt(event)
    made.recorded, made.replayed = recorded, replayed
    return made


def accepted(delay_ms: int, limit: Limit | None = None) -> Course:
    return Course(Outcome.ACCEPTED, 1_000_000 + delay_ms * 1000, limit)


def rejected(limit: Limit) -> Course:
    return Course(Outcome.REJECTED, 1_000_000, limit)


def test_each_connection_counts_in_the_row_of_its_limit() -> None:
    summary = Summary()
    delays = [attempt("10.0.0.1", accepted(0), accepted(number, RATE)) for number in range(1, 101)]
    others = [attempt("10.0.0.2", accepted(5), rejected(GROUP)), attempt("10.0.0.3", accepted(0), accepted(0))]
    for each in [*delays, *others]:
        summary.add(each)
    summary.note({"10.0.0.1": "app"}, 2)
    rows = summary.by_limit(LIMITS)
    assert [(row["quota"], row["connections"]) for row in rows] == [("shop/clients", 100), ("shop/range", 1), (None, 1)]
    first, second, _ = rows
    assert (first["delayed"], first["delay_p50_ms"], first["delay_p99_ms"], first["delay_max_ms"]) == (100, 50, 99, 100)
    assert (first["was_accepted"], first["was_delayed"], first["was_delay_max_ms"]) == (100, 0, None)
    assert (second["rejected"], second["was_delayed"], second["was_delay_max_ms"]) == (1, 1, 5)
    assert [(row["client_ip"], row["client_id"]) for row in summary.by_client(LIMITS)] == [
        ("10.0.0.1", "app"),
        ("10.0.0.2", None),
        ("10.0.0.3", None),
    ]


def test_what_the_log_cannot_tell_is_said_only_if_it_matters() -> None:
    assert list(unknown(Summary())) == []
    summary = Summary()
    for each in (
        attempt("10.0.0.1", accepted(0), rejected(GROUP)),
        attempt("10.0.0.1", rejected(GROUP), accepted(0)),
        attempt("10.0.0.1", accepted(3), accepted(9, RATE)),
    ):
        summary.add(each)
    summary.note({}, 4)
    sentences = list(unknown(summary))
    assert [sentence.split()[0] for sentence in sentences] == ["1", "1", "1", "clients", "4"]
    assert "tried again" in sentences[0]
    assert "hung up" in sentences[1]
    assert "retries" in sentences[2]
    assert "kernel's queue" in sentences[3]
