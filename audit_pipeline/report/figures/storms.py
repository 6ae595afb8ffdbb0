"""Connection storms: sources, sizes, limits and effects on other clients; the latest ones over time."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope
from audit_pipeline.report.window import MINUTE_US, SECOND_US, Span
from audit_pipeline.results.tables import BIN_S

STORMS_MAX = 40
DRAWN_MAX = 6
"""Number of storms that have a timeline, the latest ones."""
BINS_MAX = 120
SOURCES_MAX = 5
BIN_US = BIN_S * SECOND_US
_STEPS_US = (BIN_US, 2 * BIN_US, 5 * BIN_US, 10 * BIN_US, 30 * BIN_US, MINUTE_US, 5 * MINUTE_US)

_SHOWN = "epoch_us(storms.ended) >= $since_us AND epoch_us(storms.started) < $to_us"
"""Storms before the days shown are shown, too, unless a --from was given: the last storm may be weeks ago."""

_STORMS = f"""
SELECT cluster_id, listener, epoch_us(started) AS started_us, epoch_us(ended) AS ended_us, accepted, limited, refused,
  peak_attempts, listener_rate, held_accepted, limit_quota, limit_key, limit_entity, limit_value, source_ip,
  source_principal, source_client_id, source_software, source_attempts, others_requests_before, others_p99_before_us,
  others_requests_during, others_p99_during_us, addresses, client_accepted
FROM storms NATURAL JOIN (
  SELECT cluster_id, listener, started, count(DISTINCT client_ip) AS addresses,
    coalesce(
      sum(taking_part.accepted) FILTER (taking_part.client_id IS NOT DISTINCT FROM named.source_client_id), 0
    )::BIGINT AS client_accepted
  FROM storm_sources AS taking_part JOIN storms AS named USING (cluster_id, listener, started)
  GROUP BY ALL
)
WHERE {_SHOWN}
ORDER BY started DESC, accepted + refused DESC, cluster_id, listener LIMIT {STORMS_MAX}
"""

_BINS = f"""
SELECT epoch_us(bin) // $bin_us * $bin_us AS at_us, sum(accepted)::BIGINT AS accepted, sum(limited)::BIGINT AS limited,
  sum(refused)::BIGINT AS refused, count(DISTINCT bin) AS bins
FROM storm_bins
WHERE cluster_id = $cluster_id AND listener = $listener
  AND epoch_us(bin) + {BIN_US} > $started_us AND epoch_us(bin) <= $ended_us
GROUP BY ALL ORDER BY at_us
"""

_SOURCES = """
SELECT client_ip, principal, client_id, concat_ws(' ', software_name, software_version) AS software,
  accepted, limited, refused
FROM storm_sources
WHERE cluster_id = $cluster_id AND listener = $listener AND epoch_us(started) = $started_us
ORDER BY accepted + refused DESC, client_ip, principal, client_id, software
"""


@dataclass(frozen=True, slots=True)
class Storm:
    """A storm of connections: a row of the table storms."""

    cluster_id: str
    listener: str
    started_us: int
    ended_us: int
    accepted: int
    limited: int
    refused: int
    peak_attempts: int
    listener_rate: int | None
    held_accepted: int | None
    limit_quota: str | None
    limit_key: str | None
    limit_entity: str | None
    limit_value: int | None
    source_ip: str
    source_principal: str
    source_client_id: str | None
    source_software: str | None
    source_attempts: int
    others_requests_before: int
    others_p99_before_us: int | None
    others_requests_during: int
    others_p99_during_us: int | None
    addresses: int
    """Number of addresses that took part."""
    client_accepted: int
    """Number of accepted connections of source_client_id, from any address.

    A delayed connection has sent no client ID.
    """

    @property
    def peak_per_s(self) -> float:
        return self.peak_attempts / BIN_S

    @property
    def limit(self) -> str | None:
        """Return the place where the storm's limit is set: its ConnectionQuota, else its key and entity.

        None if no limit held the storm.
        """
        if self.limit_quota is not None or self.limit_key is None:
            return self.limit_quota
        return self.limit_key if self.limit_entity is None else f"{self.limit_key} of {self.limit_entity}"

    @property
    def source_share(self) -> float:
        """Return the share of all connections that came from the address with the most connections."""
        return self.source_attempts / max(1, self.accepted + self.refused)

    @property
    def client_share(self) -> float:
        """Return the share of the accepted connections that have the source's client ID."""
        return self.client_accepted / max(1, self.accepted)

    @property
    def held_per_s(self) -> float | None:
        return None if self.held_accepted is None else self.held_accepted / BIN_S


@dataclass(frozen=True, slots=True)
class Bin:
    """The connections of a storm in a step of its timeline, from `bins` stormy seconds."""

    at_us: int
    accepted: int
    limited: int
    refused: int
    bins: int


@dataclass(frozen=True, slots=True)
class Source:
    client_ip: str
    principal: str
    client_id: str | None
    software: str
    accepted: int
    limited: int
    refused: int


@dataclass(frozen=True, slots=True)
class StormTimeline:
    storm: Storm
    bin_us: int
    bins: tuple[Bin, ...]
    sources: tuple[Source, ...]
    sources_total: int


@dataclass(frozen=True, slots=True)
class Storms:
    """The storms of the time `searched`, until the end of the time shown, the latest first."""

    searched: Span
    storms: tuple[Storm, ...]
    total: int
    timelines: tuple[StormTimeline, ...]

    @property
    def last(self) -> Storm | None:
        return self.storms[0] if self.storms else None


def storms(scope: Scope) -> Storms:
    found = tuple(Storm(**row) for row in scope.ask(_STORMS))
    (number,) = scope.ask(f"SELECT count(*) AS storms FROM storms WHERE {_SHOWN}")
    covered, shown = scope.windows.covered, scope.windows.shown
    searched = Span(covered.from_us if scope.wanted.from_us is None else shown.from_us, shown.to_us)
    return Storms(searched, found, number["storms"], tuple(_timeline(scope, storm) for storm in found[:DRAWN_MAX]))


def _timeline(scope: Scope, storm: Storm) -> StormTimeline:
    length_us = storm.ended_us - storm.started_us
    bin_us = next(
        (each for each in _STEPS_US if length_us / each <= BINS_MAX),
        MINUTE_US * -(-length_us // (MINUTE_US * BINS_MAX)),
    )
    given = {name: getattr(storm, name) for name in ("cluster_id", "listener", "started_us", "ended_us")}
    sources = scope.ask(_SOURCES, **given)
    return StormTimeline(
        storm,
        bin_us,
        tuple(Bin(**row) for row in scope.ask(_BINS, **given, bin_us=bin_us)),
        tuple(Source(**row) for row in sources[:SOURCES_MAX]),
        len(sources),
    )
