"""Damage of files at rest: a partition has every record that it must have, or it is known to be damaged."""

import logging
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.checkpoint import RECOVERY_POINTS, read_offsets, read_topic_id
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.recovery import recovery
from broker_runtime.wire.reply import FileRegion
from kafka_bytes.batches import CRC_FROM, HEADER_BYTES, checksum, encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.logs.damaged_node import CONFIG, EVERYTHING, FOLDER, Node, all_but, served
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, values_of


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
def test_a_damaged_batch_of_an_old_segment_takes_nothing_else_with_it(end: Callable[[Node], None]) -> None:
    node = Node()
    node.sync()
    end(node)
    node.damage_batch(20)
    before = node.files()
    node.start()
    assert (node.unreadable, served(node.log)) == ([(20, 20)], all_but(20))
    assert node.files() == before
    assert (node.report.partitions_damaged, node.report.ranges_damaged) == (0, 1)
    assert node.logs.run_record.epoch == -1, "its broker is not counted on"
    with pytest.raises(KafkaError, match=r"offsets 20 to 20 of .* are damaged: .* checksum"):
        node.log.read(20, 300, min_one=True, up_to=50)
    region = node.log.read(15, 10_000, min_one=True, up_to=50)
    assert region is not None
    assert [header.base_offset for header, _ in iter_batches(region.read())] == [15, 16, 17, 18, 19]
    node.log.append(memoryview(encode_batch([(b"k", b"on")], 1)), leader_epoch=2)
    end(node)
    node.start()
    assert served(node.log) == {**all_but(20), 50: b"on"}


def test_the_damaged_parts_are_known_at_each_start_until_they_are_whole_again() -> None:
    node = Node()
    node.stop()
    node.damage_batch(20)
    whole = node.last
    for end in (Node.stop, Node.kill, Node.lose_power, Node.stop):
        node.start()
        assert (node.unreadable, served(node.log)) == ([(20, 20)], all_but(20))
        end(node)
    node.last = whole
    node.damage_batch(20)
    node.start()
    assert (node.unreadable, values_of(node.log)) == ([], EVERYTHING)
    assert node.log.latest_epoch == 1


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
def test_each_of_several_damaged_parts_is_a_range_of_its_own(end: Callable[[Node], None]) -> None:
    """Two of one segment, one of which is its first batch, two next to each other, and one of the newest segment."""
    node = Node()
    node.sync()
    end(node)
    first = node.last.segments[1].base_offset
    for offset in (first, first + 4, first + 5, 48):
        node.damage_batch(offset)
    node.start()
    assert node.unreadable == [(first, first), (first + 4, first + 5), (48, 48)]
    assert served(node.log) == all_but(first, first + 4, first + 5, 48)
    assert node.log.append(memoryview(encode_batch([(b"k", b"on")], 1))).base_offset == 50
    assert node.log.segments[-1].base_offset == 50, "nothing is appended to a damaged segment"
    end(node)
    node.start()
    assert served(node.log) == {**all_but(first, first + 4, first + 5, 48), 50: b"on"}


@pytest.mark.parametrize("at", [8, 9, 11, 16, 17, 23, 26])
def test_behind_a_damaged_header_the_next_batch_is_searched(at: int) -> None:
    """The header's length is wrong, or its magic, its checksum or its number of offsets."""
    node = Node()
    node.stop()
    node.damage_batch(20, at, 0x41)
    node.start()
    assert (node.unreadable, served(node.log)) == ([(20, 20)], all_but(20))


def test_a_forged_batch_inside_damaged_records_is_not_read_as_a_batch() -> None:
    node = Node()
    inner = bytearray(encode_batch([(b"k", b"forged")], 1))
    inner[:8] = (52).to_bytes(8, "big")
    for value in (bytes(inner), b"51", b"52", b"53"):
        node.log.append(memoryview(encode_batch([(b"k", value)], 1)), leader_epoch=1)
    node.log.files.roll()
    node.stop()
    node.damage_batch(50, at=9)
    node.start()
    assert node.unreadable == [(50, 50)]
    assert {offset: value for offset, value in served(node.log).items() if offset >= 50} == {
        51: b"51",
        52: b"52",
        53: b"53",
    }


def test_an_index_that_is_lost_without_damage_is_made_again() -> None:
    node = Node()
    node.stop()
    node.lose_index(2)
    node.start()
    assert (node.report.indexes_rebuilt, values_of(node.log)) == (1, EVERYTHING)


def test_batches_that_are_lost_at_the_end_of_an_old_segment_are_a_damaged_range() -> None:
    node = Node()
    node.sync()
    node.kill()
    first, follows = node.last.segments[1].base_offset + 1, node.last.segments[2].base_offset
    node.fs.open(node.segment(1)).truncate(71)
    for _ in range(2):
        node.start()
        assert (node.unreadable, served(node.log)) == ([(first, follows - 1)], all_but(*range(first, follows)))
        node.stop()


def test_after_a_kill_damage_of_what_was_not_synced_is_told_from_a_torn_write() -> None:
    """The page cache has survived: complete batches do not become damaged there on their own."""
    node = Node()
    node.kill()
    node.damage_batch(20)
    node.start()
    assert (node.unreadable, served(node.log)) == ([(20, 20)], all_but(20))


@pytest.mark.parametrize("at", [0, 7, 8, 11, 16, 17, 20, 23, 26, HEADER_BYTES + 2])
def test_after_a_kill_each_field_of_the_last_batch_is_told_from_a_torn_write(at: int) -> None:
    node = Node()
    last = node.log.segments[-1]
    position = last.position_of(49)
    assert position is not None
    node.kill()
    node.flip(last.path, position + at, 0x40)
    node.start()
    if node.logs.get("orders", 0) is None:
        return
    # The leader epoch (bytes 12 to 15) is not in the checksum.
    raise AssertionError(f"byte {at} is not missed")


def test_after_a_kill_a_torn_write_is_cut() -> None:
    node = Node()
    torn = encode_batch([(b"k", b"50")], 1)
    for size in (1, 40, HEADER_BYTES, len(torn) - 1):
        file = node.log.segments[-1].file
        file.write_at([(50).to_bytes(8, "big") + torn[8:size]], file.size())
        node.kill()
        node.start()
        assert values_of(node.log) == EVERYTHING
        assert node.report.bytes_truncated == max(size, 8)


def test_records_that_look_like_thousands_of_headers_do_not_hold_up_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start does not compute sums for minutes to recognize a torn write; an unrecognized one is not cut."""
    summed = 0

    def counted(batch: memoryview) -> int:
        nonlocal summed
        summed += len(batch)
        return checksum(batch)

    monkeypatch.setattr(recovery, "checksum", counted)
    monkeypatch.setattr(recovery, "_SUMMED_BYTES_MAX", 1 << 20)
    node = Node()
    fake = bytearray(encode_batch([(None, b"")], 1)[:HEADER_BYTES])
    fake[0:12] = (1 << 40).to_bytes(8, "big") + (30_000).to_bytes(4, "big")
    node.log.append(memoryview(encode_batch([(None, bytes(fake) * 1000)], 1)), leader_epoch=1)
    last = node.log.segments[-1]
    node.kill()
    node.fs.open(last.path).truncate(60_000)
    node.start()
    assert ("orders", 0) in node.logs.damaged
    assert summed < 2 << 20


def test_after_a_power_loss_what_was_not_synced_ends_at_the_first_damage() -> None:
    node = Node()
    node.sync()
    for number in range(20):
        node.log.append(memoryview(encode_batch([(b"k", b"late %d" % number)], 1)), leader_epoch=1)
    node.lose_power()
    node.start()
    assert values_of(node.log)[:50] == EVERYTHING


def test_after_a_power_loss_damage_below_the_recovery_point_is_missed() -> None:
    node = Node()
    node.sync()
    node.lose_power()
    base = node.last.segments[-1].base_offset
    node.damage_batch(base)
    node.start()
    assert (node.unreadable, served(node.log)) == ([(base, base)], all_but(base))


@pytest.mark.parametrize("byte", [0, 3, 4, 6, 7])
@pytest.mark.parametrize("end", [Node.stop, Node.kill, Node.lose_power])
def test_a_flipped_bit_in_a_base_offset_neither_moves_the_end_nor_stops_the_broker(
    end: Callable[[Node], None], byte: int
) -> None:
    """The base offset is outside of the checksum."""
    node = Node()
    node.sync()
    position = node.log.segments[-1].position_of(48)
    assert position is not None
    end(node)
    path = node.segment(-1)
    for bit in (1, 0x80):
        node.flip(path, position + byte, bit)
        node.lose_index(-1)
        node.start()
        assert "instead of 48" in node.log.damage[0].reason
        assert (node.unreadable, served(node.log)) == ([(48, 48)], all_but(48))
        node.stop()
        node.flip(path, position + byte, bit)


def test_a_batch_of_more_offsets_than_an_index_can_say_is_damaged() -> None:
    node = Node()
    node.sync()
    position = node.log.segments[-1].position_of(48)
    assert position is not None
    file = node.log.segments[-1].file
    batch = bytearray(file.pread(1 << 20, position))
    batch[23:27] = (2**31 - 1).to_bytes(4, "big")
    whole = batch[: 12 + int.from_bytes(batch[8:12], "big")]
    whole[17:21] = checksum(whole).to_bytes(4, "big")
    node.kill()
    node.fs.open(node.segment(-1)).write_at([whole], position)
    node.start()
    assert "a batch has 2147483648 offsets" in node.log.damage[0].reason
    assert (node.unreadable, served(node.log)) == ([(48, 48)], all_but(48))
    assert CRC_FROM == 21


def test_to_follow_a_leader_a_log_with_a_damaged_end_is_cut_there() -> None:
    node = Node()
    node.log.delete_records(3)
    node.sync()
    node.kill()
    node.damage_batch(49)
    node.start()
    assert "checksum" in node.reason
    log = node.logs.cut_damaged("orders", 0, TOPIC_ID, CONFIG)
    assert (log.log_start_offset, log.log_end_offset, node.logs.damaged) == (3, 49, {})
    assert read_offsets(node.fs, LOG_DIR / RECOVERY_POINTS) == {}
    FollowerLog(log).append(_batches(49, 50))
    node.kill()
    node.start()
    assert (values_of(node.log), node.log.log_start_offset) == (EVERYTHING[3:], 3)


def _batches(start: int, end: int) -> memoryview:
    found = bytearray()
    for number in range(start, end):
        batch = bytearray(encode_batch([(b"k", EVERYTHING[number])], 1000 + number))
        batch[:8] = number.to_bytes(8, "big")
        batch[12:16] = (1).to_bytes(4, "big")
        found += batch
    return memoryview(found)


def test_a_log_without_a_topic_id_is_recreated_to_follow() -> None:
    node = Node()
    node.stop()
    node.fs.unlink(FOLDER / "partition.metadata")
    node.fs.unlink(LOG_DIR / ".sluicegate_partitions")
    node.start()
    assert "partition.metadata is missing" in node.reason
    log = node.logs.cut_damaged("orders", 0, TOPIC_ID, CONFIG)
    assert (log.log_end_offset, len(node.logs.strays)) == (0, 1)


def test_a_person_may_accept_the_loss_of_damaged_offsets(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.stop()
    first, follows = node.last.segments[2].base_offset, node.last.segments[3].base_offset
    for offset in (5, 7, 48):
        node.damage_batch(offset)
    node.fs.lose(node.last.segments[2].path)
    lost = (5, 7, *range(first, follows), 48)
    node.fs.open(FOLDER / "accept-loss", create=True)
    with caplog.at_level(logging.ERROR):
        node.start()
    assert f"orders-0: the loss of offsets {first} to {follows - 1} was accepted" in caplog.text
    assert (node.unreadable, served(node.log)) == ([], all_but(*lost))
    assert node.logs.damage.accepted_ranges == 4
    assert node.logs.run_record.epoch == -1
    node.log.append(memoryview(encode_batch([(b"k", b"on")], 1)), leader_epoch=2)
    node.kill()
    node.start()
    assert (node.unreadable, served(node.log)) == ([], {**all_but(*lost), 50: b"on"})
    assert not node.fs.exists(FOLDER / "accept-loss")
    assert "sluicegate.gaps" not in node.fs.listdir(FOLDER)


def test_a_person_may_accept_that_the_end_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.stop()
    for offset in (20, 49):
        node.damage_batch(offset)
    node.start()
    assert "checksum" in node.reason
    node.stop()
    node.fs.open(FOLDER / "accept-loss", create=True)
    with caplog.at_level(logging.ERROR):
        node.start()
    assert (node.unreadable, served(node.log)) == ([], all_but(20, 49))
    assert "orders-0 ends at 49, but had more records before" in caplog.text
    assert node.log.append(memoryview(encode_batch([(b"k", b"on")], 1)), leader_epoch=2).base_offset == 49


def test_a_deleted_topic_takes_its_damaged_log_with_it() -> None:
    node = Node()
    node.stop()
    node.flip(node.segment(2), 70)
    node.lose_index(2)
    node.start()
    node.logs.delete("orders", 0)
    assert node.logs.holdings() == []
    again = node.logs.create("orders", 0, UUID(int=9), CONFIG)
    assert again.log_end_offset == 0


@pytest.mark.parametrize("end", [Node.kill, Node.lose_power])
def test_a_crash_on_the_way_does_not_make_a_log_whole_whose_end_is_damaged(
    end: Callable[[Node], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node()
    node.stop()
    node.damage_batch(49)
    node.start()
    with monkeypatch.context() as patch:
        patch.setattr("broker_runtime.storage.log_dir.manager.load_log", _crash)
        with pytest.raises(KafkaError):
            node.logs.cut_damaged("orders", 0, TOPIC_ID, CONFIG)
    end(node)
    node.start()
    log = node.logs.get("orders", 0)
    assert ("orders", 0) in node.logs.damaged if log is None else log.log_end_offset <= 49


def _crash(*_: object) -> Log:
    raise OSError


def test_a_topic_id_that_is_damaged_is_known_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.stop()
    node.flip(FOLDER / "partition.metadata", 25)
    with caplog.at_level(logging.ERROR):
        node.start()
    assert node.log.topic_id == TOPIC_ID
    assert "partition.metadata is damaged, and is rewritten" in caplog.text
    assert read_topic_id(node.fs, FOLDER) == TOPIC_ID


@pytest.fixture(scope="module")
def stopped() -> Node:
    node = Node()
    node.log.delete_records(3)
    node.stop()
    return node


@pytest.fixture(scope="module")
def killed() -> Node:
    node = Node()
    node.log.delete_records(3)
    node.sync()
    node.kill()
    return node


def paths(fs: MemoryFileSystem) -> list[Path]:
    found = [LOG_DIR / name for name in fs.listdir(LOG_DIR) if not fs.is_dir(LOG_DIR / name)]
    found += [FOLDER / name for name in fs.listdir(FOLDER)]
    return [path for path in found if fs.open(path).size()]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["stopped", "killed"]), st.booleans())
def test_whatever_byte_of_whatever_file_is_damaged(
    stopped: Node, killed: Node, data: st.DataObject, how: str, boot_again: bool
) -> None:
    """The same records are there, or the partition is known to be damaged, or its reader gets an error."""
    before = stopped if how == "stopped" else killed
    node = Node()
    node.fs = before.fs.copy()
    node.boot = "boot-1" if not boot_again else "boot-2"
    path = data.draw(st.sampled_from(paths(node.fs)), label="file")
    size = node.fs.open(path).size()
    kind = data.draw(st.sampled_from(["flip", "flip", "flip", "garbage", "cut", "lost"]), label="damage")
    at = data.draw(st.integers(0, size - 1), label="byte")
    if kind == "flip":
        node.flip(path, at, data.draw(st.integers(1, 255), label="bits"))
    elif kind == "garbage":
        node.fs.open(path).write_at([data.draw(st.binary(min_size=1, max_size=min(64, size - at)))], at)
    elif kind == "cut":
        node.fs.open(path).truncate(at)
    else:
        node.fs.unlink(path)
    node.start()
    _read_as_a_consumer(node, path)
    node.stop()
    node.start()
    _read_as_a_consumer(node, path)


def _read_as_a_consumer(node: Node, path: Path) -> None:
    log = node.logs.get("orders", 0)
    if log is None:
        assert ("orders", 0) in node.logs.damaged
        return
    assert log.log_end_offset == 50
    if path.name != "log-start-offset-checkpoint":
        # Kafka's file has no checksum: a flipped digit there is a valid log start.
        assert log.log_start_offset <= 3
    expected = log.log_start_offset
    while expected < 50:
        code, region = _read(log, expected)
        if code == ErrorCode.CORRUPT_MESSAGE:
            expected = next(d.next_offset for d in log.damage if d.first_offset <= expected < d.next_offset)
        elif code == ErrorCode.KAFKA_STORAGE_ERROR:
            # Nothing has read these bytes before; from now on their damage is known.
            assert any(segment.damage for segment in log.segments)
        if code != ErrorCode.NONE:
            assert path.suffix == ".log"
            continue
        assert region is not None
        try:
            batches = list(iter_batches(region.read()))
        except KafkaError:
            assert path.suffix == ".log"
            return
        assert batches, "a consumer would ask for the same for ever"
        for header, batch in batches:
            if checksum(batch) != header.crc or not header.base_offset <= expected <= header.last_offset:
                # A batch that was never checked: its reader notices, here by the content.
                assert path.suffix == ".log"
                return
            values = [record.value for record in iter_records(batch)]
            if path.suffix == ".log" and header.base_offset == 3 and values == [EVERYTHING[2]]:
                # A base offset is outside the checksum, and no reader continues from the batch before the log's start.
                return
            assert values == EVERYTHING[header.base_offset : header.last_offset + 1]
            expected = header.last_offset + 1
    assert expected == 50


def _read(log: Log, offset: int) -> tuple[ErrorCode, FileRegion | None]:
    try:
        return ErrorCode.NONE, log.read(offset, 300, min_one=True, up_to=50)
    except KafkaError as error:
        return error.code, None
