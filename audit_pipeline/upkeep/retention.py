"""Retention: deletes segments that are too old, or exceed the quota, from the first one on.

The last deleted number of a boot is recorded before, so that `check` does not report a loss. Only one process at a time
may compact or expire the content of a target, see `Target.upkeep`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from audit_pipeline.contract import Boot
from audit_pipeline.errors import StoppedError, never
from audit_pipeline.spool.listing import SegmentPath, segment_paths
from audit_pipeline.spool.manifest_file import read_note
from audit_pipeline.spool.segment import Footer, SegmentName, boot_name, hour_of, named_by
from audit_pipeline.spool.stored_segment import by_segment, footers_at, with_footers
from audit_pipeline.spool.targets import Target

EXPIRED = "_expired.json"


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The limits beyond which old segments are deleted; None is no limit.

    Hours that ended before `before_us` are deleted. `bytes_max` is the maximum size of all segments.
    """

    before_us: int | None = None
    bytes_max: int | None = None


def expired(target: Target) -> dict[Boot, int]:
    """Return the last deleted number of each boot. Raises OSError and BadUseError."""
    noted = read_note(target, EXPIRED, list[tuple[str, int, str, int]]) or []
    return {(cluster, broker, boot): seq for cluster, broker, boot, seq in noted}


def expire(target: Target, limits: RetentionLimits, is_stopped: Callable[[], bool] = never) -> int:
    """Delete segments beyond the limits; return the number of files.

    The deleted segments of a boot are always its first ones. Raises StoppedError between two files.
    """
    files = segment_paths(target)
    through = expired(target)
    gone = _half_deleted(files, through, target, is_stopped)
    going = set(gone)
    left = sum(file.size for file in files) - sum(file.size for file in gone)
    before = None if limits.before_us is None else hour_of(limits.before_us)
    kept: set[Boot] = set()
    for hour, members in _by_hour([file for file in files if file not in going], target, is_stopped):
        is_too_much = limits.bytes_max is not None and left > limits.bytes_max
        # An hour without anything to delete is not read, nor are later ones: each footer costs a request.
        if (before is None or hour >= before) and not is_too_much:
            break
        segments = by_segment(members, target, is_stopped)
        for footer, parts in sorted(
            segments.values(), key=lambda each: (each[0].opened_us, each[0].boot, each[0].segments)
        ):
            is_old = before is not None and hour_of(footer.opened_us) < before
            is_too_much = limits.bytes_max is not None and left > limits.bytes_max
            if footer.boot in kept or not (is_old or is_too_much):
                kept.add(footer.boot)
                continue
            through[footer.boot] = max(through.get(footer.boot, 0), footer.last_seq)
            gone += parts
            left -= sum(part.size for part in parts)
    if gone:
        target.put(EXPIRED, json.dumps(sorted([*boot, seq] for boot, seq in through.items())).encode())
        for file in gone:
            if is_stopped():
                raise StoppedError
            target.delete(file.path)
    return len(gone)


def _half_deleted(
    files: Iterable[SegmentPath], through: Mapping[Boot, int], target: Target, is_stopped: Callable[[], bool]
) -> list[SegmentPath]:
    """Return the files that an interrupted deletion has left: the first of each boot, up to one that was to stay."""
    noted = {boot_name(*boot): seq for boot, seq in through.items()}
    boots: dict[str, list[tuple[SegmentName, SegmentPath]]] = defaultdict(list)
    for file in files:
        name = named_by(file.path)
        if name is not None and name.boot in noted:
            boots[name.boot].append((name, file))
    found = []
    for boot, members in boots.items():
        for _, file in sorted(members, key=lambda each: (each[0].low, each[0].high)):
            (footer,) = footers_at([file.path], target, is_stopped)
            if not isinstance(footer, Footer):
                # `check` reports it.
                continue
            if footer.last_seq > noted[boot]:
                break
            found.append(file)
    return found


def _by_hour(
    files: Sequence[SegmentPath], target: Target, is_stopped: Callable[[], bool]
) -> list[tuple[str, list[SegmentPath]]]:
    """Group files by hour, the oldest first. The hour of a renamed file comes from its footer."""
    hours: dict[str, list[SegmentPath]] = defaultdict(list)
    others = []
    for file in files:
        name = named_by(file.path)
        if name is None:
            others.append(file)
        else:
            hours[name.hour].append(file)
    for file, footer in with_footers(others, target, is_stopped):
        hours[hour_of(footer.opened_us)].append(file)
    return sorted(hours.items())
