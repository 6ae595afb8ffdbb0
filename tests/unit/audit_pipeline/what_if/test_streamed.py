"""A replay that reads few attempts ahead decides as one that has the whole log."""

from collections import Counter

import pytest

from audit_pipeline.reading.recorded_connections import recorded_events, recorded_limits
from audit_pipeline.what_if.agreement import is_equal
from audit_pipeline.what_if.attempts import Attempt
from audit_pipeline.what_if.limits_in_force import limits_in_force
from audit_pipeline.what_if.recording import recording_of
from audit_pipeline.what_if.streamed import StreamedReplay
from tests.unit.audit_pipeline.what_if.test_changed_limits_property import bench_of


@pytest.mark.parametrize("seed", range(40))
def test_few_attempts_ahead_are_enough(seed: int) -> None:
    bench = bench_of(seed)
    limits = limits_in_force(recorded_limits(bench.rows("connection_limit")))
    assert limits is not None
    rows = bench.rows()
    early = recording_of(recorded_events(rows)).early
    decided: list[Attempt] = []
    run = StreamedReplay(limits, decided.append, early, ahead_max=60)
    for event in recorded_events(rows):
        run.add(event)
    late = run.finish()
    assert Counter(attempt.first_seq for attempt in decided).most_common(1)[0][1] == 1
    assert len(decided) == len(recording_of(recorded_events(rows)).attempts)
    different = sum(not is_equal(attempt) for attempt in decided)
    assert different == 0 or late > 0


def test_most_logs_have_no_attempt_that_is_read_too_late() -> None:
    late = 0
    for seed in range(40):
        bench = bench_of(seed)
        limits = limits_in_force(recorded_limits(bench.rows("connection_limit")))
        assert limits is not None
        run = StreamedReplay(limits, lambda _: None, (), ahead_max=60)
        for event in recorded_events(bench.rows()):
            run.add(event)
        late += run.finish() > 0
    assert late < 20
