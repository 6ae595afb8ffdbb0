"""One line per kind and interval, however many refusals."""

from broker_runtime.network.quotas.refusals import MAX_KINDS, RefusalLog


def test_one_line_per_kind_and_interval_and_the_next_one_counts_the_rest() -> None:
    log = RefusalLog(10_000)
    assert log.note("frame-too-large", "first", 0) == "frame-too-large: first"
    assert log.note("frame-negative-size", "other kind", 1) == "frame-negative-size: other kind"
    assert [log.note("frame-too-large", "again", now_ms) for now_ms in (1, 5_000, 9_999)] == [None] * 3
    assert log.note("frame-too-large", "late", 10_000) == "frame-too-large: late (3 more like this since the last line)"
    assert log.note("frame-too-large", "later", 20_000) == "frame-too-large: later"
    assert log.totals == {"frame-too-large": 6, "frame-negative-size": 1}


def test_a_flood_of_kinds_is_counted_as_other() -> None:
    log = RefusalLog(10_000)
    for number in range(MAX_KINDS + 10):
        log.note(f"kind-{number}", "text", number)
    assert len(log.totals) == MAX_KINDS + 1
    assert log.totals["other"] == 10
