"""Unreplicated markers: those that the last stable offset depends on, and no more."""

from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.storage.records.unreplicated import UnreplicatedMarkers

_FIRSTS = st.lists(st.integers(0, 30), max_size=30, unique=True)


@given(_FIRSTS, st.lists(st.integers(0, 70), max_size=5).map(sorted))
def test_the_oldest_is_that_of_all_markers_from_the_high_watermark_on(firsts: list[int], watermarks: list[int]) -> None:
    added = {31 + number: first for number, first in enumerate(firsts)}
    kept = UnreplicatedMarkers()
    markers = kept.markers
    for marker, first in added.items():
        kept.add(marker, first)
    for high_watermark in (0, *watermarks):
        kept.forget_below(high_watermark)
        left = [first for marker, first in added.items() if marker >= high_watermark]
        assert kept.first_offset == min(left, default=None)
        assert bool(kept.markers) == bool(left)
    copied = UnreplicatedMarkers()
    copied.replace_by(kept)
    assert (copied.markers, copied.first_offset) == (kept.markers, kept.first_offset)
    kept.clear()
    assert kept.first_offset is None
    assert kept.markers is markers


def test_a_transaction_that_began_later_and_ended_earlier_is_left_out() -> None:
    kept = UnreplicatedMarkers()
    kept.add(10, 5)
    kept.add(11, 3)
    assert list(kept.markers) == [11]
