"""Whether the audit log is complete: by day, by broker, and which files were set aside."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope

FAULTY_MAX = 40
SILENT_MAX = 20
FILES_MAX = 40

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
    """One day of a cluster."""

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


@dataclass(frozen=True, slots=True)
class Reason:
    """Why files were set aside, and how many; rows if they are known."""

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
    """Completeness of the days shown; `reasons`, `files` and `unplaced_files` cover everything ever set aside.

    The day or the broker of unplaced files is unknown: they may belong to any.
    """

    days: tuple[Day, ...]
    faulty: tuple[FaultyBroker, ...]
    faulty_total: int
    silent: tuple[SilentBroker, ...]
    silent_total: int
    reasons: tuple[Reason, ...]
    files: tuple[FileSetAside, ...]
    unplaced_files: int

    @property
    def events(self) -> int:
        return sum(day.events for day in self.days)

    @property
    def missing(self) -> int:
        """Missing events: those in reported gaps, and unexplained holes."""
        return sum(day.missing + day.holes for day in self.days)

    @property
    def is_complete(self) -> bool:
        return not self.unplaced_files and all(day.is_complete for day in self.days)


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
    )
