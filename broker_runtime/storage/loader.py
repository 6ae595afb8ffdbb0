"""From the files of a partition's folder to a `Log`, and from nothing to a new one."""

from collections.abc import Sequence
from pathlib import Path

from broker_runtime.config import TopicConfig
from broker_runtime.storage.checkpoint import PARTITION_METADATA
from broker_runtime.storage.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.filesystem import FileSystem, read_file, replace_file
from broker_runtime.storage.log import Log
from broker_runtime.storage.log_files import LoadedLog
from broker_runtime.storage.place import LogPlace
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.recovery import RecoveryReport, load_segment
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import load_snapshot, replay_producers

_LEFTOVERS = (".deleted", ".tmp", ".cleaned", ".swap")
_INDEXES = (".index", ".timeindex")


def new_log(place: LogPlace, config: TopicConfig) -> Log:
    return Log(place, config, LoadedLog([_new_segment(place, 0)], ProducerStates(), has_new_names=True))


def _new_segment(place: LogPlace, base_offset: int) -> Segment:
    segment = Segment(place.fs, place.folder, base_offset, place.clock.wall_ms())
    segment.create()
    return segment


def load_log(place: LogPlace, config: TopicConfig, found: LoadedLog, report: RecoveryReport) -> Log:
    """`found` brings the checkpoints' offsets; unless the report says clean, what lies behind them is scanned."""
    bases = _tidy(place.fs, place.folder)
    loaded = found
    scan_from = None if report.clean else found.recovery_point
    loaded.segments = _load_segments(place, config, bases, loaded.recovery_point, report)
    end = loaded.segments[-1].next_offset if loaded.segments else 0
    if not loaded.segments or end < loaded.log_start_offset:
        # Everything that is left lies below the log's start: go on at the start.
        for segment in loaded.segments:
            segment.unlink()
        loaded.segments = [_new_segment(place, loaded.log_start_offset)]
        loaded.has_new_names = True
    loaded.log_start_offset = max(loaded.log_start_offset, loaded.segments[0].base_offset)
    end = loaded.segments[-1].next_offset
    loaded.snapshot_offset = load_snapshot(place.fs, place.folder, end, loaded.producers)
    replay_producers(loaded.segments, loaded.producers, loaded.snapshot_offset, place.clock.wall_ms())
    loaded.epochs = _load_epochs(place, loaded.segments, scan_from)
    if report.clean:
        loaded.recovery_point = min(loaded.recovery_point, end)
    else:
        # What was scanned is synced; whose it is and the names that the crash left must be too before that counts.
        # The folder's own name is synced with all others, before the recovery points are written.
        place.fs.open(place.folder / PARTITION_METADATA).fsync()
        place.fs.fsync_dir(place.folder)
        loaded.recovery_point = end
    report.partitions += 1
    return Log(place, config, loaded)


def _tidy(fs: FileSystem, folder: Path) -> list[int]:
    """Remove what a crash left over; returns the base offsets of the segments."""
    names = fs.listdir(folder)
    logs = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    for name in names:
        stem, dot, _ = name.partition(".")
        if name.endswith(_LEFTOVERS) or (dot and name.endswith(_INDEXES) and stem not in logs):
            fs.unlink(folder / name)
    return sorted(int(stem) for stem in logs)


def _load_segments(
    place: LogPlace, config: TopicConfig, bases: list[int], recovery_point: int, report: RecoveryReport
) -> list[Segment]:
    segments: list[Segment] = []
    broken = False
    for number, base in enumerate(bases):
        segment = Segment(place.fs, place.folder, base, place.clock.wall_ms())
        if broken or (segments and _is_torn_off(base, segments[-1], report, recovery_point)):
            # Behind a cut there is no telling what belongs: the log ends at the cut.
            broken = True
            segment.unlink()
            report.segments_dropped += 1
            continue
        is_last = number == len(bases) - 1
        scan = not report.clean and (is_last or bases[number + 1] > recovery_point)
        before = report.bytes_truncated
        load_segment(segment, config.index_interval_bytes, report, scan=scan)
        broken = report.bytes_truncated > before
        segments.append(segment)
    return segments


def _is_torn_off(base: int, before: Segment, report: RecoveryReport, recovery_point: int) -> bool:
    """Overlap is damage; so is a gap behind the recovery point after a crash (the older segment lost its tail)."""
    end = before.next_offset
    return base < end or (base > end and not report.clean and base > recovery_point)


def _load_epochs(place: LogPlace, segments: Sequence[Segment], scan_from: int | None) -> LeaderEpochs:
    """From their file; what a crash may have kept from it, or all without a good file, from the batches."""
    path = place.folder / EPOCHS_FILE
    content = read_file(place.fs, path) if place.fs.exists(path) else LeaderEpochs().encode()
    try:
        epochs = LeaderEpochs.decode(content)
    except ValueError:
        epochs = LeaderEpochs()
    epochs.truncate_end(segments[-1].next_offset)
    epochs.truncate_start(segments[0].base_offset)
    if epochs.latest < 0:
        scan_from = 0
    if scan_from is not None:
        for segment in segments:
            position = segment.position_of(max(scan_from, segment.base_offset))
            for _, header in () if position is None else segment.headers(position):
                epochs.assign(header.leader_epoch, header.base_offset)
    if epochs.encode() != content:
        replace_file(place.fs, path, epochs.encode())
    return epochs
