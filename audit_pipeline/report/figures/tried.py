"""What other limits would have done to connections, beside what really happened: by limit, and by limit and client."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from audit_pipeline.report.figures.latency import percentile_us
from audit_pipeline.report.figures.scope import Scope

CLIENTS_MAX = 40

_WITHIN = "event_date BETWEEN $from_day AND $to_day"
_LIMIT = "quota, limit_key, limit_entity"
_SUMS = ", ".join(
    f"sum({name})::BIGINT AS {name}"
    for name in (
        "connections", "accepted", "delayed", "rejected", "was_accepted", "was_delayed", "was_rejected", "rejected_now",
        "admitted_now", "later",
    )
)  # fmt: skip
_ROWS = f"""
SELECT {{key}}, {_SUMS}, max(delay_max_us) AS delay_max_us, max(was_delay_max_us) AS was_delay_max_us {{more}}
FROM what_if WHERE {_WITHIN} GROUP BY {{key}}
"""
_BY_LIMIT = f"""
{_ROWS.format(key=_LIMIT, more=", count(DISTINCT client_ip) AS clients")}
ORDER BY limit_key IS NULL, sum(delayed + rejected) DESC, quota, limit_key, limit_entity
"""
_BY_CLIENT = f"""
{_ROWS.format(key=f"{_LIMIT}, client_ip", more=", max(client_id) AS client_id, count(*) OVER () AS all_rows")}
HAVING limit_key IS NOT NULL
ORDER BY sum(delayed + rejected) DESC, sum(what_if.connections) DESC, limit_key, limit_entity, client_ip
LIMIT {CLIENTS_MAX}
"""
_DELAYS = f"""
SELECT {{key}}, entry.key AS bucket, sum(entry.value)::BIGINT AS connections
FROM (SELECT {{key}}, unnest(map_entries(delays)) AS entry FROM what_if WHERE {_WITHIN} AND delayed > 0)
GROUP BY ALL
"""

Place = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """Connections that a limit meets. `client_ip` and `client_id` are None in the row of a limit as a whole.

    The fields `was_...` say what really happened to the same connections. Times are microseconds, None without delays;
    percentiles are within 4 percent.
    """

    quota: str | None
    limit_key: str | None
    limit_entity: str | None
    connections: int
    accepted: int
    delayed: int
    delay_p50_us: int | None
    delay_p99_us: int | None
    delay_max_us: int | None
    rejected: int
    was_accepted: int
    was_delayed: int
    was_delay_max_us: int | None
    was_rejected: int
    rejected_now: int
    admitted_now: int
    later: int
    clients: int = 1
    client_ip: str | None = None
    client_id: str | None = None

    @property
    def limit(self) -> str | None:
        """Where the limit is set: its ConnectionQuota, else its key and entity; None for connections that meet none."""
        if self.quota is not None or self.limit_key is None:
            return self.quota
        return self.limit_key if self.limit_entity is None else f"{self.limit_key} of {self.limit_entity}"


@dataclass(frozen=True, slots=True)
class TriedLimits:
    """The limits that the build has tried on whole days: none if it was given none."""

    limits: tuple[Tried, ...]
    clients: tuple[Tried, ...]
    clients_total: int


def tried_limits(scope: Scope) -> TriedLimits:
    by_limit = scope.ask(_BY_LIMIT)
    delays = _delays(scope.ask(_DELAYS.format(key=_LIMIT)), 3)
    limits = tuple(_tried(row, delays.get(_place(row, 3))) for row in by_limit)
    by_client = scope.ask(_BY_CLIENT)
    total = by_client[0]["all_rows"] if by_client else 0
    of_clients = _delays(scope.ask(_DELAYS.format(key=f"{_LIMIT}, client_ip")), 4) if by_client else {}
    return TriedLimits(limits, tuple(_tried(row, of_clients.get(_place(row, 4))) for row in by_client), total)


def _place(row: Mapping[str, Any], columns: int) -> Place:
    return tuple(row[name] for name in ("quota", "limit_key", "limit_entity", "client_ip")[:columns])


def _delays(rows: Iterable[Mapping[str, Any]], columns: int) -> Mapping[Place, Mapping[int, int]]:
    found: dict[Place, dict[int, int]] = defaultdict(dict)
    for row in rows:
        found[_place(row, columns)][row["bucket"]] = row["connections"]
    return found


def _tried(row: Mapping[str, Any], delays: Mapping[int, int] | None) -> Tried:
    known = {name: value for name, value in row.items() if name != "all_rows"}
    # The end of a bucket may be above the longest delay.
    longest_us = row["delay_max_us"]
    p50_us, p99_us = (min(percentile_us(delays, percent), longest_us) if delays else None for percent in (50, 99))
    return Tried(**known, delay_p50_us=p50_us, delay_p99_us=p99_us)
