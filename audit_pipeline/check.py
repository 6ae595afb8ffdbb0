"""Whether segments have every event once: holes, duplicates, gaps that brokers and landers have told, corrupt files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from audit_pipeline.contract import contract
from audit_pipeline.listing import SegmentPath, segment_paths
from audit_pipeline.retention import expired
from audit_pipeline.segment import Footer, NoSegmentError
from audit_pipeline.stored_segment import footer_at, row_groups_at
from audit_pipeline.targets import Target

_LOOKS = 3
_COVERING = {"rollup", "gap"}
"""Tables whose rows cover the numbers from first_seq to seq."""

Boot = tuple[str, int, str]
Ranges = np.ndarray[Any, Any]
"""Rows of first and last number, sorted."""


class Finding(NamedTuple):
    """`kind` is hole, duplicate, gap or corrupt."""

    kind: str
    where: str
    text: str


@dataclass(slots=True)
class Report:
    """What was looked at, and what is wrong; `events` counts numbers that have an event."""

    files: int = 0
    segments: int = 0
    boots: int = 0
    events: int = 0
    missing: int = 0
    findings: list[Finding] = field(default_factory=list)


def check(target: Target) -> Report:
    """What somebody lands, merges or deletes meanwhile may look as if it were missing: then it is looked at again."""
    for _ in range(_LOOKS):
        paths = segment_paths(target)
        report = _look(target, paths)
        if all(finding.kind == "gap" for finding in report.findings) or segment_paths(target) == paths:
            break
    return report


def _look(target: Target, paths: Iterable[SegmentPath]) -> Report:
    report = Report()
    by_segment: dict[tuple[Boot, tuple[int, int]], dict[str, tuple[str, Footer]]] = defaultdict(dict)
    for table, path, *_ in paths:
        report.files += 1
        try:
            footer = footer_at(path, target)
        except (FileNotFoundError, NoSegmentError) as error:
            report.findings.append(Finding("corrupt", path, str(error)))
            continue
        files = by_segment[footer.boot, footer.segments]
        if table in files:
            text = f"it has the same rows of the same segment as {files[table][0]}"
            report.findings.append(Finding("duplicate", path, text))
        files[table] = (path, footer)
    by_boot: dict[Boot, list[Footer]] = defaultdict(list)
    deleted = expired(target)
    for (boot, _), files in sorted(by_segment.items()):
        footer = next(iter(files.values()))[1]
        if footer.last_seq <= deleted.get(boot, 0):
            # It is being deleted.
            continue
        report.segments += 1
        by_boot[boot].append(footer)
        report.findings += _segment(footer, files, target, report)
    report.boots = len(by_boot)
    latest = {(cluster, broker): boot for cluster, broker, boot in sorted(by_boot)}
    for boot, footers in sorted(by_boot.items()):
        report.findings += _boot(boot, footers, deleted.get(boot, 0), is_latest=latest[boot[:2]] == boot[2])
    return report


def _segment(footer: Footer, files: dict[str, tuple[str, Footer]], target: Target, report: Report) -> Iterator[Finding]:
    """Its files are all there, and its events have the numbers that it should have."""
    where = _shown(footer)
    for table in sorted(footer.rows.keys() - files.keys()):
        yield Finding("hole", where, f"its file of the table {table} with {footer.rows[table]} rows is missing")
    numbers: list[Ranges] = []
    for table, (path, told) in sorted(files.items()):
        if told != footer:
            yield Finding(
                "duplicate", path, f"it says something else of its segment than {next(iter(files.values()))[0]}"
            )
        if table not in contract().tables:
            continue
        try:
            # All columns are read, so that what is damaged is found.
            read, findings = _numbers(table, path, row_groups_at(path, table, target))
        except NoSegmentError as error:
            yield Finding("corrupt", path, str(error))
            continue
        yield from findings
        if table == "gap":
            report.missing += int(sum(last - first + 1 for first, last in read))
        if table != "partition":
            numbers.append(read)
    if footer.rows.keys() <= files.keys():
        covered = _sorted(numbers)
        report.events += int((covered[:, 1] - covered[:, 0] + 1).sum()) if len(covered) else 0
        yield from _compared(covered, footer.first_seq, footer.last_seq, where)


def _numbers(table: str, path: str, groups: Iterable[pa.Table]) -> tuple[Ranges, list[Finding]]:
    """The numbers that its rows cover."""
    findings: list[Finding] = []
    parts = [np.zeros((0, 2), np.int64)]
    for rows in groups:
        last = rows["seq"].to_numpy()
        first = rows["first_seq"].to_numpy() if table in _COVERING else last
        parts.append(np.stack([first, last], axis=1))
        if table == "gap":
            findings += (_gap(path, gap) for gap in rows.to_pylist())
    ranges = np.concatenate(parts)
    return np.unique(ranges, axis=0) if table == "rollup" else ranges, findings


def _gap(path: str, gap: Mapping[str, Any]) -> Finding:
    text = f"{gap['events']} events from {gap['first_seq']} to {gap['seq']} are missing: {gap['reason']}"
    return Finding("gap", path, text + (f" ({gap['detail']})" if gap["detail"] else ""))


def _sorted(parts: Sequence[Ranges]) -> Ranges:
    if not parts:
        return np.zeros((0, 2), np.int64)
    ranges = np.concatenate(parts)
    return ranges[np.argsort(ranges[:, 0], kind="stable")]


def _compared(covered: Ranges, first_seq: int, last_seq: int, where: str) -> Iterator[Finding]:
    """Each number from the first to the last has to be covered once."""
    before = np.concatenate([[first_seq - 1], covered[:, 1]])
    after = np.concatenate([covered[:, 0], [last_seq + 1]])
    for place in np.flatnonzero(after != before + 1):
        low, high = int(before[place]) + 1, int(after[place]) - 1
        if high >= low:
            yield Finding(
                "hole", where, f"{high - low + 1} events from {low} to {high} are missing, and nothing says why"
            )
        else:
            yield Finding("duplicate", where, f"the numbers from {high + 1} to {low - 1} are there more than once")


def _boot(boot: Boot, footers: Iterable[Footer], deleted: int, *, is_latest: bool) -> Iterator[Finding]:
    """Its segments follow each other from the first number to the last."""
    ordered = sorted(footers, key=lambda footer: footer.first_seq)
    where = "-".join(map(str, boot))
    expected = deleted + 1
    for footer in ordered:
        if footer.first_seq > expected:
            count = footer.first_seq - expected
            yield Finding(
                "hole",
                where,
                f"{count} events before segment {footer.segments[0]} are missing: {expected} to {footer.first_seq - 1}",
            )
        elif footer.first_seq < expected:
            yield Finding(
                "duplicate", _shown(footer), f"its events from {footer.first_seq} on are in another segment too"
            )
        expected = max(expected, footer.last_seq + 1)
    if ordered[-1].end == "next" and not is_latest:
        yield Finding(
            "hole", where, f"it does not end: what follows {expected - 1} is missing, and a later boot is there"
        )


def _shown(footer: Footer) -> str:
    low, high = footer.segments
    shown = f"segment {low}" if low == high else f"segments {low} to {high}"
    return f"{footer.cluster_id}-{footer.broker_id}-{footer.boot_id} {shown}"
