"""Compaction: merges the many small segments of an hour into one, because each file costs its readers.

A reader of the plain folder never finds an event twice. While originals are being replaced it may miss some events for
a moment, or after a kill until the next compaction; `check` and `query` read the plan and find all events. Only one
process at a time may compact or expire the content of a target, see `Target.upkeep`.
"""

import io
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from audit_pipeline.contract import Boot
from audit_pipeline.errors import StoppedError, never
from audit_pipeline.spool.listing import CompactionPlan, SegmentPath, compaction_plans, plan_path, segment_paths
from audit_pipeline.spool.segment import (
    Footer,
    NoSegmentError,
    SegmentWriter,
    folder_of,
    hour_of,
    named_by,
    segment_name,
)
from audit_pipeline.spool.stored_segment import by_segment, row_groups_at
from audit_pipeline.spool.targets import DRAFT_PREFIX, Target

log = logging.getLogger(__name__)

_GROUP_ROWS = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Segment:
    """One segment and its files by table."""

    footer: Footer
    files: dict[str, SegmentPath]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


def compact(target: Target, before_us: int, bytes_max: int, is_stopped: Callable[[], bool] = never) -> int:
    """Merge segments that began before the hour of `before_us` into files of at most `bytes_max`.

    Return the number of segments that were merged. Raises StoppedError between two files that it reads or
    writes, but not while originals are replaced.
    """
    finish_interrupted(target)
    merged = 0
    files = _mergeable(segment_paths(target), before_us, bytes_max)
    for run in _runs(_segments(target, files, is_stopped), bytes_max):
        try:
            _merge(run, target, is_stopped)
        except StoppedError:
            finish_interrupted(target)
            raise
        except NoSegmentError as error:
            log.error("segments of an hour are not merged: %s", error)
            finish_interrupted(target)
        else:
            merged += len(run)
    return merged


def finish_interrupted(target: Target) -> None:
    """Complete or undo compactions that a kill has interrupted."""
    plans = compaction_plans(target, [stored.path for stored in target.files()])
    for path, plan in plans.items():
        if plan.committed:
            _replace(plan, path, target)
        else:
            for draft, _ in plan.merged:
                target.delete(draft)
            target.delete(path)


def _mergeable(files: Iterable[SegmentPath], before_us: int, bytes_max: int) -> list[SegmentPath]:
    """Return the files of boots' hours that have something to merge, by names and sizes: a footer costs a request."""
    hours: dict[tuple[str, str], dict[tuple[int, int], list[SegmentPath]]] = defaultdict(lambda: defaultdict(list))
    before = hour_of(before_us)
    for file in files:
        name = named_by(file.path)
        if name is not None and name.hour < before:
            hours[name.hour, name.boot][name.low, name.high].append(file)
    found = []
    for segments in hours.values():
        sizes = [sum(file.size for file in members) for _, members in sorted(segments.items())]
        if any(size + following <= bytes_max for size, following in pairwise(sizes)):
            found += [file for members in segments.values() for file in members]
    return found


def _segments(target: Target, files: Sequence[SegmentPath], is_stopped: Callable[[], bool]) -> Iterator[_Segment]:
    """Yield the complete segments; incomplete ones are not touched.

    Segments that reappeared after they were merged are left out, too. Merged with others they would share events with
    the file that already has them, and of two such files only one counts.
    """
    found = {
        key: _Segment(footer, {file.table: file for file in parts})
        for key, (footer, parts) in by_segment(files, target, is_stopped).items()
    }
    merged: dict[Boot, list[tuple[int, int]]] = defaultdict(list)
    for boot, (low, high) in found:
        if high > low:
            merged[boot].append((low, high))
    return (
        segment
        for (boot, numbers), segment in sorted(found.items())
        if segment.footer.rows.keys() == segment.files.keys() and not _is_in_wider(numbers, merged[boot])
    )


def _is_in_wider(numbers: tuple[int, int], merged: Iterable[tuple[int, int]]) -> bool:
    """Whether any of these numbers is in a file with a wider range."""
    low, high = numbers
    return any(first <= high and low <= last and last - first > high - low for first, last in merged)


def _runs(segments: Iterable[_Segment], bytes_max: int) -> Iterator[list[_Segment]]:
    """Yield runs of segments of one hour that follow each other without a hole and fit into `bytes_max` together."""
    hours: dict[tuple[Boot, str], list[_Segment]] = defaultdict(list)
    for segment in segments:
        hours[segment.footer.boot, hour_of(segment.footer.opened_us)].append(segment)
    for members in hours.values():
        members.sort(key=lambda segment: segment.footer.first_seq)
        run: list[_Segment] = []
        for segment in members:
            follows = run and run[-1].footer.last_seq + 1 == segment.footer.first_seq
            if not follows or sum(each.size for each in run) + segment.size > bytes_max:
                if len(run) > 1:
                    yield run
                run = []
            run.append(segment)
        if len(run) > 1:
            yield run


def _merge(run: Sequence[_Segment], target: Target, is_stopped: Callable[[], bool]) -> None:
    first, last = run[0].footer, run[-1].footer
    # All but the last segment have rows, and the footer of each file records the end of a boot.
    tables = sorted({table for segment in run for table, rows in segment.footer.rows.items() if rows})
    footer = replace(
        first,
        segments=(first.segments[0], last.segments[1]),
        last_seq=last.last_seq,
        closed_us=last.closed_us,
        end=last.end,
        rows={table: sum(segment.footer.rows.get(table, 0) for segment in run) for table in tables},
    )
    number = f"{footer.segments[0]:08d}-{footer.segments[1]:08d}"
    name = segment_name(footer.cluster_id, footer.broker_id, footer.boot_id, number)
    folders = {table: folder_of(table, footer.opened_us) for table in tables}
    plan = CompactionPlan(
        tuple(file.path for segment in run for file in segment.files.values()),
        tuple((f"{folders[table]}/{DRAFT_PREFIX}{name}", f"{folders[table]}/{name}") for table in tables),
        committed=False,
    )
    path = plan_path(f"{footer.cluster_id}-{footer.broker_id}")
    target.put(path, plan.packed())
    for table, (draft, _) in zip(tables, plan.merged, strict=True):
        target.put(draft, _merged(table, run, footer, target, is_stopped))
    committed = replace(plan, committed=True)
    target.put(path, committed.packed())
    _replace(committed, path, target)


def _merged(
    table: str, run: Sequence[_Segment], footer: Footer, target: Target, is_stopped: Callable[[], bool]
) -> bytes:
    sink = io.BytesIO()
    with SegmentWriter(sink, footer) as writer:
        waiting: list[pa.Table] = []
        for segment in run:
            if is_stopped():
                raise StoppedError
            if table not in segment.files:
                continue
            for rows in row_groups_at(segment.files[table].path, table, target, is_to_rewrite=True):
                waiting.append(rows)
                if sum(each.num_rows for each in waiting) >= _GROUP_ROWS:
                    writer.write(pa.concat_tables(waiting))
                    waiting = []
        if waiting:
            writer.write(pa.concat_tables(waiting))
    return sink.getvalue()


def _replace(plan: CompactionPlan, path: str, target: Target) -> None:
    """Replace originals by merged files; can be repeated wherever it was interrupted."""
    folders = {draft.rpartition("/")[0] for draft, _ in plan.merged}
    there = {stored.path for folder in folders for stored in target.files(folder)}
    if any(draft not in there and name not in there for draft, name in plan.merged):
        log.error("another process has compacted at the same time: the segments to merge stay unchanged")
        target.delete(path)
        return
    for original in plan.originals:
        target.delete(original)
    for draft, name in plan.merged:
        if draft in there:
            target.rename(draft, name)
    target.delete(path)
