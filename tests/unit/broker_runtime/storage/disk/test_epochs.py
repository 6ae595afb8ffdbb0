"""Leader epochs against a plain implementation of KIP-101: the end of an epoch as the batches show it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.storage.disk.epochs import LeaderEpochs
from tests.support.logs.replica_model import epoch_end

GAPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=12)


def _batches(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(base offset, epoch) of consecutive batches, with these steps of the epoch and these numbers of records."""
    found, offset, epoch = [], 0, 0
    for further, records in steps:
        epoch += further
        found.append((offset, epoch))
        offset += records
    return found


@given(GAPS, st.integers(-1, 40), st.integers(0, 60))
def test_ends_are_those_of_the_batches_however_the_log_was_cut(
    steps: list[tuple[int, int]], asked: int, cut: int
) -> None:
    batches = _batches(steps)
    epochs = LeaderEpochs((epoch, base) for base, epoch in batches)
    kept = [batch for batch in batches if batch[0] < cut]
    epochs.truncate_end(cut)
    assert epochs.latest == max((epoch for _, epoch in kept), default=-1)
    assert epochs.end_offset_for(asked, cut) == epoch_end(kept, asked, cut)
    assert LeaderEpochs.decode(epochs.encode()).entries == epochs.entries


@given(GAPS, st.integers(-1, 40), st.data())
def test_deleting_the_beginning_changes_no_end_of_what_is_left(
    steps: list[tuple[int, int]], asked: int, data: st.DataObject
) -> None:
    batches = _batches(steps)
    epochs = LeaderEpochs((epoch, base) for base, epoch in batches)
    first = data.draw(st.sampled_from([base for base, _ in batches] or [0]))
    epochs.truncate_start(first)
    left = [batch for batch in batches if batch[0] >= first]
    assert epochs.end_offset_for(asked, 99) == epoch_end(left, asked, 99)


def test_end_offsets_of_epochs_without_records_match_kafkas() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 30)])
    assert epochs.end_offset_for(1, 50) == (1, 10)
    assert epochs.end_offset_for(2, 50) == (2, 30)
    assert epochs.end_offset_for(4, 50) == (2, 30)
    assert epochs.end_offset_for(5, 50) == (5, 50)
    # The leader is of epoch 7, has written nothing yet, and a follower has records of epoch 6: they come after 50.
    assert epochs.end_offset_for(6, 50) == (5, 50)
    assert epochs.end_offset_for(-1, 50) == (-1, -1)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x00\x00", b"0\n2\n1 0\n", b"0\n1\n1 10", b"1\n1\n1 10\n", b"0\n2\n2 0\n1 5\n", b"0\n2\n1 9\n2 5\n"],
)
def test_a_torn_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="leader epoch checkpoint"):
        LeaderEpochs.decode(content)
