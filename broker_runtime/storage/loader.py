"""From the files of a partition's folder to a `Log`, and from nothing to a new one."""

from pathlib import Path

from broker_runtime.config import TopicConfig
from broker_runtime.storage.epochs import LeaderEpochs
from broker_runtime.storage.filesystem import FileSystem
from broker_runtime.storage.log import LoadedLog, Log, LogPlace
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.recovery import RecoveryReport, load_segment
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import load_snapshot

_LEFTOVERS = (".deleted", ".tmp", ".cleaned", ".swap")
_INDEXES = (".index", ".timeindex")


def new_log(place: LogPlace, config: TopicConfig) -> Log:
    return Log(place, config, LoadedLog([_new_segment(place, 0)], ProducerStates()))


def _new_segment(place: LogPlace, base_offset: int) -> Segment:
    segment = Segment(place.fs, place.folder, base_offset, place.clock.wall_ms())
    segment.create()
    return segment


def load_log(place: LogPlace, config: TopicConfig, found: LoadedLog, report: RecoveryReport) -> Log:
    """`found` brings the checkpoints' offsets; unless the report says clean, what lies behind them is scanned."""
    bases = _tidy(place.fs, place.folder)
    loaded = found
    loaded.segments = _load_segments(place, config, bases, loaded.recovery_point, report)
    end = loaded.segments[-1].next_offset if loaded.segments else 0
    if not loaded.segments or end < loaded.log_start_offset:
        # Everything that is left lies below the log's start: go on at the start.
        for segment in loaded.segments:
            _drop(segment)
        loaded.segments = [_new_segment(place, loaded.log_start_offset)]
    loaded.log_start_offset = max(loaded.log_start_offset, loaded.segments[0].base_offset)
    end = loaded.segments[-1].next_offset
    if report.clean:
        loaded.recovery_point = min(loaded.recovery_point, end)
    else:
        # What was scanned is synced; the names of segments that the crash left must be too before that counts.
        place.fs.fsync_dir(place.folder)
        loaded.recovery_point = end
    snapshot = load_snapshot(place.fs, place.folder, end, loaded.producers)
    _replay(loaded, snapshot, place.clock.wall_ms())
    report.partitions += 1
    loaded.epochs = LeaderEpochs()
    for segment in loaded.segments:
        for _, header in segment.headers(0):
            loaded.epochs.assign(header.leader_epoch, header.base_offset)
    log = Log(place, config, loaded)
    log.snapshot_offset = snapshot
    return log


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
            _drop(segment)
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


def _drop(segment: Segment) -> None:
    for path in (segment.path, segment.offsets.path, segment.times.path):
        if segment.fs.exists(path):
            segment.fs.unlink(path)


def _replay(loaded: LoadedLog, from_offset: int, now_ms: int) -> None:
    for segment in loaded.segments:
        position = segment.position_of(max(from_offset, segment.base_offset))
        if position is None:
            continue
        for _, header in segment.headers(position):
            if header.base_offset >= from_offset:
                loaded.producers.replay(header, now_ms)
