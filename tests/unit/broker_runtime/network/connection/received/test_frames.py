"""A buffer that grows with the received bytes, never with the announced size."""

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.received.frames import UnfinishedFrame, check_size, frame_length
from broker_runtime.node.process.process_metrics import resident_bytes


def fill(frame: UnfinishedFrame, data: bytes) -> int:
    space = frame.free_space()
    count = min(len(space), len(data))
    space[:count] = data[:count]
    frame.filled += count
    return count


def test_the_announced_size_is_not_allocated() -> None:
    frame = UnfinishedFrame(memoryview(bytes(100)), 100_000_004)
    assert len(frame.buffer) == 65_536
    while frame.filled < 1_000_000:
        fill(frame, bytes(50_000))
        assert len(frame.buffer) <= max(65_536, 4 * frame.filled)


def test_a_large_frame_is_not_copied_again_and_takes_memory_for_what_has_arrived() -> None:
    """Each copy of 50 MB, and each filling of 100 MB with zeros, blocks the event loop for 0.1 s."""
    frame = UnfinishedFrame(memoryview(bytes(70_000)), 100_000_004)
    while frame.filled < 2_000_000:
        fill(frame, bytes(100_000))
    buffer, before = frame.buffer, resident_bytes()
    assert len(buffer) == 100_000_004
    while frame.filled < 4_000_000:
        fill(frame, bytes(100_000))
    assert frame.buffer is buffer
    assert resident_bytes() - before < 20_000_000
    assert bytes(frame.arrived) == bytes(frame.filled)


def test_a_large_frame_grows_by_copies_where_the_system_counts_unused_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("broker_runtime.network.connection.received.frames.mmap", refuse)
    content = bytes(range(256)) * 20_000
    frame = UnfinishedFrame(memoryview(content[:5]), len(content))
    while frame.missing:
        fill(frame, content[frame.filled :])
    assert bytes(frame.arrived) == content


def test_a_frame_that_arrives_in_pieces_is_complete_and_not_a_byte_longer() -> None:
    content = bytes(range(256)) * 4_000
    frame = UnfinishedFrame(memoryview(content[:5]), len(content))
    while frame.missing:
        fill(frame, content[frame.filled :] + b"the next request")
    assert bytes(frame.buffer[: frame.needed]) == content


def test_a_size_field_that_is_not_complete_keeps_what_is_there() -> None:
    frame = UnfinishedFrame(memoryview(b"\x00\x00"), 0)
    assert (bytes(frame.buffer), frame.filled) == (b"\x00\x00", 2)


@pytest.mark.parametrize(("size", "kind"), [(-1, "frame-negative-size"), (101, "frame-too-large")])
def test_sizes_that_are_refused(size: int, kind: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_size(size, 100)
    assert refused.value.kind == kind


def test_the_largest_size_is_allowed() -> None:
    check_size(100, 100)
    check_size(0, 100)
    assert UnfinishedFrame(memoryview(b""), 104).missing == 104


def test_waiting_complete_frames_are_taken_one_by_one_without_a_copy() -> None:
    waiting = UnfinishedFrame(memoryview(b"\x00\x00\x00\x01a\x00\x00\x00\x02bb"), 5)
    buffer = waiting.buffer
    assert waiting.complete
    waiting.skip(5, 6)
    assert (waiting.buffer is buffer, waiting.complete) == (True, True)
    assert bytes(waiting.arrived) == b"\x00\x00\x00\x02bb"


@pytest.mark.parametrize(("data", "length"), [(b"\x00\x00", 0), (b"\x00\x00\x00\x05ab", 9), (b"\x7f\x00\x00\x00ab", 6)])
def test_the_length_of_a_frame(data: bytes, length: int) -> None:
    assert frame_length(memoryview(data), 100) == length
