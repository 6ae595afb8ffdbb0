"""Retention: segments that are too old, or do not fit into the quota, are deleted from the first one on.

Up to which number a boot's events were deleted is noted before, so that `check` does not take it for a loss. One
process at a time may compact or expire what is in a target, see `Target.upkeep`.
"""

import json
from collections import defaultdict
from dataclasses import dataclass

from audit_pipeline.listing import SegmentPath, segment_paths
from audit_pipeline.segment import Footer, NoSegmentError, folder_of
from audit_pipeline.stored_segment import footer_at
from audit_pipeline.targets import Target

_NOTE = "_expired.json"

Boot = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """`before_us`: hours that ended before it are deleted. `bytes_max` is for all segments together. None: no limit."""

    before_us: int | None = None
    bytes_max: int | None = None


def expired(target: Target) -> dict[Boot, int]:
    """By boot: the last number that was deleted."""
    try:
        with target.file_system.open_input_stream(_NOTE) as file:
            noted = json.loads(file.read())
    except FileNotFoundError:
        return {}
    return {(cluster, broker, boot): seq for cluster, broker, boot, seq in noted}


def expire(target: Target, limits: RetentionLimits) -> int:
    """Delete what is beyond the limits; how many files that were. Of a boot all goes that is before what goes."""
    files = segment_paths(target)
    left = sum(file.size for file in files)
    hour = None if limits.before_us is None else folder_of("", limits.before_us)
    segments: dict[tuple[Boot, tuple[int, int]], list[SegmentPath]] = defaultdict(list)
    footers: dict[tuple[Boot, tuple[int, int]], Footer] = {}
    for file in files:
        try:
            footer = footer_at(file.path, target)
        except (FileNotFoundError, NoSegmentError):
            # `check` tells of it.
            continue
        segments[footer.boot, footer.segments].append(file)
        footers[footer.boot, footer.segments] = footer
    through = expired(target)
    gone: list[SegmentPath] = []
    kept: set[Boot] = set()
    for key in sorted(segments, key=lambda key: (footers[key].opened_us, key)):
        footer, members = footers[key], segments[key]
        is_old = hour is not None and folder_of("", footer.opened_us) < hour
        is_too_much = limits.bytes_max is not None and left > limits.bytes_max
        # Of one whose deletion was interrupted nothing may stay.
        is_going = footer.last_seq <= through.get(footer.boot, 0)
        if not is_going and (footer.boot in kept or not (is_old or is_too_much)):
            kept.add(footer.boot)
            continue
        through[footer.boot] = max(through.get(footer.boot, 0), footer.last_seq)
        gone += members
        left -= sum(member.size for member in members)
    if gone:
        target.put(_NOTE, json.dumps(sorted([*boot, seq] for boot, seq in through.items())).encode())
        for file in gone:
            target.delete(file.path)
    return len(gone)
