"""Earliest first, bounded, none lost."""

from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.network.sockets.delayed_closes import DelayedCloses


def test_the_earliest_deadline_is_due_first_whatever_the_order_of_arrival() -> None:
    closes = DelayedCloses(10)
    for fd, close_at_ms in ((1, 300), (2, 100), (3, 200)):
        assert closes.add(fd, close_at_ms)
    assert closes.next_ms == 100
    assert closes.due(99) == []
    assert closes.due(200) == [2, 3]
    assert closes.next_ms == 300
    assert closes.take_all() == [1]
    assert closes.next_ms is None


def test_add_returns_false_beyond_the_limit() -> None:
    closes = DelayedCloses(2)
    assert [closes.add(fd, 100) for fd in range(3)] == [True, True, False]
    closes.set_limit(3)
    assert closes.add(3, 100)
    assert len(closes) == 3


@given(st.lists(st.integers(0, 1_000), max_size=50), st.lists(st.integers(0, 1_000), max_size=20))
def test_every_descriptor_comes_out_once_and_not_before_its_time(deadlines: list[int], looks: list[int]) -> None:
    closes = DelayedCloses(1_000)
    for fd, at_ms in enumerate(deadlines):
        closes.add(fd, at_ms)
    seen: list[int] = []
    for now_ms in sorted(looks):
        due = closes.due(now_ms)
        assert all(deadlines[fd] <= now_ms for fd in due)
        seen += due
        assert all(deadlines[fd] > now_ms for fd in range(len(deadlines)) if fd not in seen)
    assert sorted(seen + closes.take_all()) == list(range(len(deadlines)))
