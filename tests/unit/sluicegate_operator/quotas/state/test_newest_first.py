"""The next report: the newest, and one in four that has waited longest."""

from sluicegate_operator.quotas.state.newest_first import OLDEST_EVERY, NewestFirst


def test_the_newest_is_returned_first_and_every_name_is_returned_eventually() -> None:
    waiting = NewestFirst()
    for second in range(100):
        waiting.add(f"q{second}", (False, -float(second)))
    waiting.add("told", (True, -1000.0))
    taken = [waiting.take() for _ in range(2 * OLDEST_EVERY)]
    assert taken == ["q99", "q98", "q97", "q0", "q96", "q95", "q94", "q1"]
    rest = [waiting.take() for _ in range(len(waiting))]
    assert sorted(filter(None, [*taken, *rest])) == sorted([*(f"q{second}" for second in range(100)), "told"])
    assert waiting.take() is None


def test_a_quota_changed_again_moves_and_is_reported_once() -> None:
    waiting = NewestFirst()
    for times in range(50):
        for name in ("a", "b"):
            waiting.add(name, (False, -float(times)))
    waiting.add("a", (False, -99.0))
    assert [waiting.take(), waiting.take(), waiting.take()] == ["a", "b", None]
    waiting.add("a", (False, -99.0))
    assert waiting.take() == "a"
