"""Whether the audit log is complete: by day, by broker, and which files were set aside."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit_pipeline.report.figures.scope import Scope
from audit_pipeline.report.window import WINDOW_US

FAULTY_MAX = 40
SILENT_MAX = 20
FILES_MAX = 40
BROKERS_MAX = 40
CELLS_MAX = 144
"""Number of cells of a broker's timeline: ten minutes each for a day, and more for a longer time."""

_IN_DAYS = "event_date BETWEEN $from_day AND $to_day"

_DAYS = f"""
SELECT strftime(event_date, '%Y-%m-%d') AS day, cluster_id, count(*) AS brokers, sum(events)::BIGINT AS events,
  sum(missing)::BIGINT AS missing, sum(holes)::BIGINT AS holes, sum(quarantined_files)::BIGINT AS quarantined_files,
  sum(quarantined_rows)::BIGINT AS quarantined_rows, bool_and(is_complete) AS is_complete
FROM completeness WHERE {_IN_DAYS} GROUP BY event_date, cluster_id ORDER BY event_date DESC, cluster_id
"""

_FAULTY = f"""
SELECT strftime(event_date, '%Y-%m-%d') AS day, cluster_id, broker_id, events, gaps, missing, holes,
  quarantined_files, quarantined_rows
FROM completeness WHERE {_IN_DAYS} AND NOT is_complete
ORDER BY missing + holes DESC, quarantined_files DESC, quarantined_rows DESC, event_date DESC, cluster_id, broker_id
"""

_SILENT = f"""
WITH heard AS (
  SELECT cluster_id, broker_id, min(event_date) AS first,
    max(max(event_date)) OVER (PARTITION BY cluster_id) + INTERVAL 1 DAY AS until
  FROM completeness WHERE {_IN_DAYS} GROUP BY cluster_id, broker_id
), asked AS (
  SELECT cluster_id, broker_id, unnest(range(first::TIMESTAMP, until, INTERVAL 1 DAY))::DATE AS event_date FROM heard
)
SELECT strftime(event_date, '%Y-%m-%d') AS day, cluster_id, broker_id
FROM asked ANTI JOIN completeness USING (event_date, cluster_id, broker_id)
ORDER BY event_date DESC, cluster_id, broker_id
"""

# An open boot and a broker without any event matter whichever days are shown.
_BROKERS = f"""
WITH aside AS (
  SELECT cluster_id, broker_id, min(event_date)::TIMESTAMP AS set_aside FROM completeness
  WHERE quarantined_files + quarantined_rows > 0 AND {_IN_DAYS} GROUP BY cluster_id, broker_id
), covered AS (
  SELECT cluster_id, broker_id, max(last_ts) AS last, max(open_since) AS open_since,
    min(if(missing + holes = 1, coalesce(open_since, window_start), window_start))
      FILTER (missing + holes > 0 AND {_IN_DAYS}) AS fault
  FROM coverage GROUP BY cluster_id, broker_id
)
SELECT cluster_id, broker_id, epoch_us(last) AS last_us, epoch_us(open_since) AS open_since_us,
  if(last IS NULL, NULL, least(epoch_us(last), epoch_us(fault), epoch_us(set_aside))) AS complete_until_us
FROM covered LEFT JOIN aside USING (cluster_id, broker_id) ORDER BY cluster_id, broker_id
"""

_CELLS = """
SELECT cluster_id, broker_id, (epoch_us(window_start) - $begin_us) // $cell_us AS place,
  sum(events) > 0 AS has_events, sum(missing + holes) > 0 AS is_faulty
FROM coverage WHERE epoch_us(window_start) >= $begin_us AND epoch_us(window_start) < $to_us GROUP BY ALL
"""

_REASONS = """
SELECT reason, count(*) AS files, sum(rows)::BIGINT AS rows FROM quarantine GROUP BY reason ORDER BY files DESC, reason
"""

_UNPLACED = """
SELECT count(*) AS files FROM quarantine
WHERE reason <> 'duplicate' AND (event_date IS NULL OR cluster_id IS NULL OR broker_id IS NULL)
"""

_FILES = f"""
SELECT path, reason, strftime(event_date, '%Y-%m-%d') AS day, "table", rows, detail
FROM quarantine ORDER BY reason = 'duplicate', event_date DESC NULLS LAST, path, reason LIMIT {FILES_MAX}
"""


@dataclass(frozen=True, slots=True)
class Day:
    """The completeness of one day of a cluster."""

    day: str
    cluster_id: str
    brokers: int
    events: int
    missing: int
    holes: int
    quarantined_files: int
    quarantined_rows: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class FaultyBroker:
    """A broker on a day with missing or set-aside events."""

    day: str
    cluster_id: str
    broker_id: int
    events: int
    gaps: int
    missing: int
    holes: int
    quarantined_files: int
    quarantined_rows: int


@dataclass(frozen=True, slots=True)
class SilentBroker:
    """A broker without events on a day on which other brokers have some, although it had some on an earlier day."""

    day: str
    cluster_id: str
    broker_id: int


class Stretch(StrEnum):
    """The state of a broker's audit log in a period of time."""

    HEARD = "events, none missing"
    FAULTY = "events missing"
    OPEN = "after the end of an open boot"
    SILENT = "no event"


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """The audit log of a broker. `cells` are the states of the periods shown, each `cell_us` long.

    `last_us` is None for a registered broker of which nothing has landed. `complete_until_us` is the time of the last
    event, or of the first fault in the days shown. `open_since_us` is the end of the last segment of an open boot.
    """

    cluster_id: str
    broker_id: int
    last_us: int | None
    open_since_us: int | None
    complete_until_us: int | None
    cells: tuple[Stretch, ...]
    begin_us: int
    cell_us: int

    @property
    def is_absent(self) -> bool:
        return self.last_us is None

    @property
    def lacks_its_end(self) -> bool:
        return self.is_absent or self.open_since_us is not None


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why files were set aside, with the number of files, and of rows if that is known."""

    reason: str
    files: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class FileSetAside:
    path: str
    reason: str
    day: str | None
    table: str | None
    rows: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Completeness:
    """The completeness of the days shown.

    `reasons`, `files` and `unplaced_files` cover everything ever set aside. The day or the broker of unplaced files is
    unknown: they may belong to any.
    """

    days: tuple[Day, ...]
    faulty: tuple[FaultyBroker, ...]
    faulty_total: int
    silent: tuple[SilentBroker, ...]
    silent_total: int
    reasons: tuple[Reason, ...]
    files: tuple[FileSetAside, ...]
    unplaced_files: int
    brokers: tuple[BrokerLog, ...] = ()

    @property
    def events(self) -> int:
        return sum(day.events for day in self.days)

    @property
    def missing(self) -> int:
        """Return the number of missing events: those in reported gaps, and unexplained holes."""
        return sum(day.missing + day.holes for day in self.days)

    @property
    def is_complete(self) -> bool:
        days = all(day.is_complete for day in self.days)
        return days and not self.unplaced_files and not any(broker.lacks_its_end for broker in self.brokers)


def completeness(scope: Scope) -> Completeness:
    (unplaced,) = scope.ask(_UNPLACED)
    faulty, silent = scope.ask(_FAULTY), scope.ask(_SILENT)
    return Completeness(
        days=tuple(Day(**row) for row in scope.ask(_DAYS)),
        faulty=tuple(FaultyBroker(**row) for row in faulty[:FAULTY_MAX]),
        faulty_total=len(faulty),
        silent=tuple(SilentBroker(**row) for row in silent[:SILENT_MAX]),
        silent_total=len(silent),
        reasons=tuple(Reason(**row) for row in scope.ask(_REASONS)),
        files=tuple(FileSetAside(**row) for row in scope.ask(_FILES)),
        unplaced_files=unplaced["files"],
        brokers=tuple(_brokers(scope)),
    )


def _brokers(scope: Scope) -> Iterator[BrokerLog]:
    span = scope.windows.shown
    begin_us = span.from_us - span.from_us % WINDOW_US
    windows = -(-(span.to_us - begin_us) // WINDOW_US)
    cell_us = -(-windows // CELLS_MAX) * WINDOW_US
    places = range(-(-(span.to_us - begin_us) // cell_us))
    found = {
        (row["cluster_id"], row["broker_id"], row["place"]): row
        for row in scope.ask(_CELLS, begin_us=begin_us, cell_us=cell_us)
    }
    for row in scope.ask(_BROKERS):
        key, open_us = (row["cluster_id"], row["broker_id"]), row["open_since_us"]
        cells = tuple(_cell(found.get((*key, place)), begin_us + place * cell_us, cell_us, open_us) for place in places)
        yield BrokerLog(**row, cells=cells, begin_us=begin_us, cell_us=cell_us)


def _cell(found: Mapping[str, Any] | None, at_us: int, cell_us: int, open_since_us: int | None) -> Stretch:
    if open_since_us is not None and at_us + cell_us > open_since_us:
        return Stretch.OPEN
    if found is None:
        return Stretch.SILENT
    if found["is_faulty"]:
        return Stretch.FAULTY
    return Stretch.HEARD if found["has_events"] else Stretch.SILENT
