"""Reads the connections of a log, boot by boot, and finds the hours for which the log is incomplete. Shell."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa

from audit_pipeline.contract import Boot
from audit_pipeline.errors import BadUseError, never
from audit_pipeline.hours import HOUR_US, hour_at, start_of
from audit_pipeline.reading.boot_events import CONNECTIONS, LIMITS, LIMITS_LEAD_US, BootEvents, BootPart
from audit_pipeline.spool.listing import SegmentPath, segment_paths
from audit_pipeline.spool.segment import GOES_ON, Footer, NoSegmentError, hour_of, named_by
from audit_pipeline.spool.stored_segment import row_groups_at, with_footers
from audit_pipeline.spool.targets import Target


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A time in which the log of a broker lacks events. Times are microseconds since 1970."""

    cluster_id: str
    broker_id: int
    from_us: int
    to_us: int
    why: str

    @property
    def hours(self) -> list[str]:
        """Return the hours of the clock (UTC) that the missing part touches, such as 2026-11-22T05."""
        return [f"{start_of(hour):%Y-%m-%dT%H}" for hour in range(hour_at(self.from_us), hour_at(self.to_us) + 1)]


class ConnectionLog:
    """The connections of a target's segments from `from_us` to `to_us`, microseconds since 1970; None: all.

    Raises BadUseError if there are no segments, OSError if the store fails.
    """

    def __init__(self, target: Target, from_us: int | None, to_us: int | None) -> None:
        self._target = target
        self._from_us, self._to_us = from_us, to_us
        paths = [path for path in segment_paths(target) if self._may_have_events(path)]
        self._footers = dict(with_footers(paths, target, never))
        if not self._footers:
            raise BadUseError(
                "there are no segments of an audit log in this time: give --audit the folder or URI to which brokers' "
                "logs are landed, and a --from and --to that it has"
            )
        self._missing: list[MissingPart] = [
            self._part(path, "one of its files cannot be read") for path in paths if path not in self._footers
        ]

    def _may_have_events(self, path: SegmentPath) -> bool:
        name = named_by(path.path)
        if name is None:
            return False
        low = "" if self._from_us is None else hour_of(self._from_us - LIMITS_LEAD_US - HOUR_US)
        return low <= name.hour and (self._to_us is None or name.hour <= hour_of(self._to_us))

    def _part(self, path: SegmentPath, why: str) -> MissingPart:
        footer = self._footers.get(path)
        if footer is not None:
            return MissingPart(footer.cluster_id, footer.broker_id, footer.opened_us, footer.closed_us, why)
        name = named_by(path.path)
        hour, boot = (name.hour, name.boot) if name is not None else ("", "")
        began = datetime.strptime(hour, "arrival_date=%Y-%m-%d/arrival_hour=%H").replace(tzinfo=UTC)
        cluster_id, broker_id, _ = boot.rsplit("-", 2)
        began_us = int(began.timestamp()) * 1_000_000
        return MissingPart(cluster_id, int(broker_id), began_us, began_us, why)

    def parts(self) -> list[BootPart]:
        """Return the boots that have connections, with their files."""
        paths: dict[tuple[Boot, str], list[str]] = defaultdict(list)
        for path, footer in sorted(self._footers.items(), key=lambda item: (item[1].first_seq, item[0])):
            paths[footer.boot, path.table].append(path.path)
        return [
            BootPart(boot, paths[boot, CONNECTIONS], paths[boot, LIMITS], self._from_us, self._to_us)
            for boot in sorted({boot for boot, table in paths if table == CONNECTIONS})
        ]

    def events(self, part: BootPart) -> BootEvents:
        return BootEvents(part, self._target)

    def note_unread(self, part: BootPart, events: BootEvents) -> None:
        """Note as missing what of a part could not be read, or has no times."""
        by_path = {path.path: path for path in self._footers}
        self._missing += [self._part(by_path[path], "one of its files is damaged") for path in events.damaged]
        if events.without_times_us is not None:
            why = (
                f"{events.without_times:,} connections are of a version before 1.3 of events, which has no times of "
                "decisions"
            )
            self._missing.append(MissingPart(part.boot[0], part.boot[1], *events.without_times_us, why))

    def _gaps(self, boot: Boot) -> Iterator[pa.Table]:
        for path, footer in sorted(self._footers.items()):
            if path.table != "gap" or footer.boot != boot:
                continue
            try:
                yield from row_groups_at(path.path, "gap", self._target)
            except NoSegmentError:
                self._missing.append(self._part(path, "one of its files is damaged"))

    def missing(self) -> list[MissingPart]:
        """Return the missing parts of the log within the time window. Call it after reading the connections."""
        by_boot: dict[Boot, dict[tuple[int, int], Footer]] = defaultdict(dict)
        for footer in self._footers.values():
            by_boot[footer.boot][footer.segments] = footer
        found = list(self._missing)
        for boot in by_boot:
            for rows in self._gaps(boot):
                found += (
                    MissingPart(boot[0], boot[1], ts, ts, f"{events:,} events are missing: {reason}")
                    for ts, events, reason in zip(
                        rows["ts"].cast(pa.int64()).to_pylist(),
                        rows["events"].to_pylist(),
                        rows["reason"].to_pylist(),
                        strict=True,
                    )
                )
        found += self._holes(by_boot)
        from_us, to_us = self._from_us, self._to_us
        return [
            part
            for part in sorted(set(found), key=lambda part: (part.cluster_id, part.broker_id, part.from_us, part.why))
            if (from_us is None or part.to_us >= from_us) and (to_us is None or part.from_us < to_us)
        ]

    def _holes(self, by_boot: Mapping[Boot, Mapping[tuple[int, int], Footer]]) -> Iterator[MissingPart]:
        """Yield the times between segments that lack others, before the first one, and after the last one."""
        boots: dict[tuple[str, int], list[list[Footer]]] = defaultdict(list)
        for boot, segments in sorted(by_boot.items()):
            boots[boot[0], boot[1]].append(sorted(segments.values(), key=lambda footer: footer.first_seq))
        for (cluster_id, broker_id), runs in boots.items():
            first = runs[0][0]
            if self._from_us is not None and first.first_seq > 1 and first.opened_us > self._from_us:
                yield MissingPart(cluster_id, broker_id, self._from_us, first.opened_us, "its log begins later")
            for number, footers in enumerate(runs):
                for before, after in pairwise(footers):
                    if after.first_seq > before.last_seq + 1:
                        why = "files are missing"
                        yield MissingPart(cluster_id, broker_id, before.closed_us, after.opened_us, why)
                last = footers[-1]
                if last.end != GOES_ON:
                    continue
                if number + 1 < len(runs):
                    until_us = max(runs[number + 1][0].opened_us, last.closed_us)
                    yield MissingPart(cluster_id, broker_id, last.closed_us, until_us, "the end of a boot is missing")
                elif self._to_us is not None and hour_at(last.closed_us) < hour_at(self._to_us - 1):
                    why = "no later file has landed"
                    yield MissingPart(cluster_id, broker_id, last.closed_us, self._to_us - 1, why)
