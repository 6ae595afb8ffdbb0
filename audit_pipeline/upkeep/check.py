"""Checks that segments have every event once, and that every broker's log is there up to its end.

Finds holes, duplicates, reported gaps, corrupt files, boots without an end, and registered brokers without any file.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from audit_pipeline.contract import Boot, contract
from audit_pipeline.spool.listing import SegmentPath, segment_paths
from audit_pipeline.spool.segment import GOES_ON, Footer, NoSegmentError, boot_name, named_by
from audit_pipeline.spool.stored_segment import footers_at, has_gone, row_groups_at
from audit_pipeline.spool.targets import Target
from audit_pipeline.upkeep.retention import expired

_LOOKS_MAX = 8
"""Maximum number of passes. From the second on only new files are read, in no more time than they took to come."""
_OF_SEVERAL = ("hole", "duplicate")
"""Kinds of findings that result from several files."""
_COVERING = {"rollup", "gap"}
"""Tables whose rows cover the numbers from first_seq to seq."""

Ranges = np.ndarray[Any, Any]
"""Ranges of numbers: sorted rows of a first and a last number."""


Broker = tuple[str, int]


class Finding(NamedTuple):
    """A problem of the audit log that the command `check` has found.

    `kind` is hole, duplicate, gap, corrupt, open or absent. An open boot has no end. An absent broker is registered and
    has no file. The kind is undecided if files changed during each pass of the check.
    """

    kind: str
    where: str
    text: str


@dataclass(slots=True)
class CheckReport:
    """The report of the command `check` about an audit log. `events` counts numbers that have an event."""

    files: int = 0
    segments: int = 0
    boots: int = 0
    events: int = 0
    missing: int = 0
    findings: list[Finding] = field(default_factory=list)
    running: list[Finding] = field(default_factory=list)
    """Open boots of a cluster that is said to run: they have no end yet."""


def check(target: Target, settled_us: int | None = None, *, is_running: bool = True) -> CheckReport:
    """Check a target; repeat for files that landed, were merged or were deleted, until the findings' files are stable.

    A finding is `undecided` if its files kept changing. What brokers recorded before `settled_us` (microseconds since
    1970) should have landed: a registered broker without a file is a finding from then on. A boot whose last segment
    ended before, without the boot's end, is a finding, too, unless the cluster runs. Without `settled_us` both are not
    judged.
    """
    looks = _Looks(target, settled_us, is_running=is_running)
    paths = segment_paths(target)
    for _ in range(_LOOKS_MAX):
        report, is_whole = looks.check_pass(paths)
        now = segment_paths(target)
        if is_whole and (now == paths or all(finding.kind == "gap" for finding in report.findings)):
            return report
        paths = now
    report.findings = [_undecided(finding) for finding in report.findings]
    if not is_whole:
        text = "files were repeatedly deleted while they were checked: check again when no process merges segments"
        report.findings.append(Finding("undecided", "the last check", text))
    return report


def _undecided(finding: Finding) -> Finding:
    if finding.kind not in _OF_SEVERAL:
        return finding
    text = (
        f"{finding.text}; or files were added and deleted during the check: check again when no process merges segments"
    )
    return Finding("undecided", finding.where, text)


class _GoneError(Exception):
    """A file that was listed does not exist any more."""


@dataclass(slots=True)
class _Judged:
    """The result of reading the rows of one segment."""

    findings: list[Finding] = field(default_factory=list)
    events: int = 0
    missing: int = 0
    registered: dict[int, int] = field(default_factory=dict)
    """Brokers that an inventory names as registered, with the time of the first one (microseconds since 1970)."""


class _Looks:
    """Consecutive passes over one target: files that were read and still exist are not read again."""

    def __init__(self, target: Target, settled_us: int | None, *, is_running: bool) -> None:
        self._target = target
        self._settled_us = settled_us
        self._is_running = is_running
        self._listed: set[str] = set()
        self._footers: dict[SegmentPath, Footer] = {}
        self._judged: dict[tuple[SegmentPath, ...], _Judged] = {}

    def check_pass(self, paths: Sequence[SegmentPath]) -> tuple[CheckReport, bool]:
        """Return the report on these files, and whether all of them existed throughout the pass."""
        report = CheckReport(files=len(paths))
        is_whole = self._read_footers(paths, report)
        by_segment: dict[tuple[Boot, tuple[int, int]], dict[str, SegmentPath]] = defaultdict(dict)
        for file in paths:
            footer = self._footers.get(file)
            if footer is None:
                continue
            files = by_segment[footer.boot, footer.segments]
            if file.table in files:
                text = f"it has the same rows of the same segment as {files[file.table].path}"
                report.findings.append(Finding("duplicate", file.path, text))
            files[file.table] = file
        by_boot: dict[Boot, list[Footer]] = defaultdict(list)
        registered: dict[Broker, int] = {}
        deleted = expired(self._target)
        for (boot, _), files in sorted(by_segment.items()):
            footer = self._footers[next(iter(files.values()))]
            if footer.last_seq <= deleted.get(boot, 0):
                # Retention is deleting the segment.
                continue
            report.segments += 1
            by_boot[boot].append(footer)
            try:
                judged = self._segment(files)
            except _GoneError:
                is_whole = False
                continue
            report.findings += judged.findings
            report.events += judged.events
            report.missing += judged.missing
            for broker, told_us in judged.registered.items():
                registered[boot[0], broker] = min(told_us, registered.get((boot[0], broker), told_us))
        report.boots = len(by_boot)
        latest = {(cluster, broker): boot for cluster, broker, boot in sorted(by_boot)}
        for boot, footers in sorted(by_boot.items()):
            report.findings += _boot(boot, footers, deleted.get(boot, 0))
            self._end_of(boot, footers, report, is_latest=latest[boot[:2]] == boot[2])
        report.findings += self._vanished(paths, deleted)
        report.findings += self._absent(registered, {*latest, *(boot[:2] for boot in deleted)})
        return report, is_whole

    def _end_of(self, boot: Boot, footers: Sequence[Footer], report: CheckReport, *, is_latest: bool) -> None:
        """Add a finding if the boot has no end."""
        last = max(footers, key=lambda footer: (footer.last_seq, footer.segments[1]))
        where = "-".join(map(str, boot))
        if last.end != GOES_ON:
            return
        if not is_latest:
            text = f"the boot has no end: events after {last.last_seq} are missing, although a later boot exists"
            report.findings.append(Finding("hole", where, text))
        elif self._settled_us is not None and last.closed_us < self._settled_us:
            text = (
                f"the boot is open since {_moment(last.closed_us)}: its last segment says that another follows, and "
                "none has landed"
            )
            told = report.running if self._is_running else report.findings
            told.append(Finding("open", where, text))

    def _absent(self, registered: Mapping[Broker, int], there: Container[Broker]) -> Iterator[Finding]:
        for (cluster_id, broker_id), told_us in sorted(registered.items()):
            is_due = self._settled_us is not None and told_us < self._settled_us
            if is_due and (cluster_id, broker_id) not in there:
                text = (
                    f"the broker is registered since {_moment(told_us)} at the latest, and no file of it has landed: "
                    "land its spools, or unregister the broker"
                )
                yield Finding("absent", f"{cluster_id}-{broker_id}", text)

    def _read_footers(self, paths: Sequence[SegmentPath], report: CheckReport) -> bool:
        """Read missing footers; return whether all files existed. Damaged files become findings."""
        is_whole = True
        self._footers = {file: self._footers[file] for file in paths if file in self._footers}
        unread = [file for file in paths if file not in self._footers]
        for file, found in zip(unread, footers_at([file.path for file in unread], self._target), strict=True):
            if isinstance(found, Footer):
                self._footers[file] = found
            elif isinstance(found, FileNotFoundError) or has_gone(file.path, self._target):
                is_whole = False
            else:
                report.findings.append(Finding("corrupt", file.path, str(found)))
        return is_whole

    def _segment(self, files: Mapping[str, SegmentPath]) -> _Judged:
        """Return the result for one segment, from an earlier pass if possible. Raises _GoneError."""
        key = tuple(sorted(files.values()))
        judged = self._judged.get(key)
        if judged is None:
            told = {table: (file.path, self._footers[file]) for table, file in files.items()}
            judged = _judge(told, self._target)
            # Arrow reports a store that did not answer as a corrupt file, so a corrupt file is read again.
            if all(finding.kind != "corrupt" for finding in judged.findings):
                self._judged[key] = judged
        return judged

    def _vanished(self, paths: Sequence[SegmentPath], deleted: Mapping[Boot, int]) -> Iterator[Finding]:
        """Yield findings on files of earlier passes that no longer exist and whose events no remaining file has."""
        there = {file.path for file in paths}
        gone = self._listed - there
        self._listed |= there
        segments: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for name in map(named_by, there):
            if name is not None:
                segments[name.boot].append((name.low, name.high))
        noted = {boot_name(*boot) for boot in deleted}
        for path in sorted(gone):
            name = named_by(path)
            if name is None:
                yield Finding(
                    "undecided",
                    path,
                    "the file was deleted during the check, and its name does not show what it contained",
                )
                continue
            is_merged = any(low <= name.low and name.high <= high for low, high in segments[name.boot])
            is_expired = name.boot in noted and all(name.high < low for low, _ in segments[name.boot])
            if not is_merged and not is_expired:
                yield Finding(
                    "hole", path, "the file was deleted during the check, and its events are in no other file"
                )


def _judge(files: Mapping[str, tuple[str, Footer]], target: Target) -> _Judged:
    """Check that a segment has all its files, and that its events have the expected numbers. Raises _GoneError."""
    footer = next(iter(files.values()))[1]
    where = _shown(footer)
    judged = _Judged()
    for table in sorted(footer.rows.keys() - files.keys()):
        text = f"the file of table {table} with {footer.rows[table]} rows is missing"
        judged.findings.append(Finding("hole", where, text))
    numbers: list[Ranges] = []
    for table, (path, told) in sorted(files.items()):
        if told != footer:
            text = f"its footer differs from that of {next(iter(files.values()))[0]}"
            judged.findings.append(Finding("duplicate", path, text))
        if table not in contract().tables:
            continue
        try:
            groups = row_groups_at(path, table, target)
            read, findings = _numbers(table, path, _noting_brokers(groups, judged) if table == "inventory" else groups)
        except NoSegmentError as error:
            if has_gone(path, target):
                raise _GoneError from error
            judged.findings.append(Finding("corrupt", path, str(error)))
            continue
        judged.findings += findings
        if table == "gap":
            judged.missing += int(sum(last - first + 1 for first, last in read))
        if table != "partition":
            numbers.append(read)
    if footer.rows.keys() <= files.keys():
        covered = _sorted(numbers)
        judged.events = int((covered[:, 1] - covered[:, 0] + 1).sum()) if len(covered) else 0
        judged.findings += _compared(covered, footer.first_seq, footer.last_seq, where)
    return judged


def _noting_brokers(groups: Iterable[pa.Table], judged: _Judged) -> Iterator[pa.Table]:
    """Yield rows of inventory; note which brokers they name as registered."""
    for rows in groups:
        told = rows.select(["registered_brokers", "ts"]).group_by("registered_brokers").aggregate([("ts", "min")])
        for each in told.set_column(1, "ts_min", told["ts_min"].cast(pa.int64())).to_pylist():
            for broker in (each["registered_brokers"] or "").split(","):
                if broker.isdecimal():
                    known_us = judged.registered.get(int(broker), each["ts_min"])
                    judged.registered[int(broker)] = min(known_us, each["ts_min"])
        yield rows


def _numbers(table: str, path: str, groups: Iterable[pa.Table]) -> tuple[Ranges, list[Finding]]:
    """Return the numbers that the rows of a file cover, and a finding for each gap."""
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
    """Check that each number from the first to the last is covered exactly once."""
    before = np.concatenate([[first_seq - 1], covered[:, 1]])
    after = np.concatenate([covered[:, 0], [last_seq + 1]])
    for place in np.flatnonzero(after != before + 1):
        low, high = int(before[place]) + 1, int(after[place]) - 1
        if high >= low:
            yield Finding(
                "hole", where, f"{high - low + 1} events from {low} to {high} are missing without a recorded reason"
            )
        else:
            yield Finding("duplicate", where, f"the numbers from {high + 1} to {low - 1} occur more than once")


def _boot(boot: Boot, footers: Iterable[Footer], deleted: int) -> Iterator[Finding]:
    """Check that the segments of a boot follow each other from its first number on."""
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
                "duplicate", _shown(footer), f"its events from {footer.first_seq} on are also in another segment"
            )
        expected = max(expected, footer.last_seq + 1)


def _moment(us: int) -> str:
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _shown(footer: Footer) -> str:
    low, high = footer.segments
    shown = f"segment {low}" if low == high else f"segments {low} to {high}"
    return f"{footer.cluster_id}-{footer.broker_id}-{footer.boot_id} {shown}"
