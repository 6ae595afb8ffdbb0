"""Comparison of results with the truth of a week: the clients' bytes, storms, idle topics, and missing events.

Tables are queried in SQL (DuckDB), so that results of any size and any source will do.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from tests.support.audit.audit_weeks.truth import Truth

Ask = Callable[[str], list[dict[str, Any]]]
"""Returns the rows of a query on tables of results, by column name."""

SHOWN: Final = 3

_BYTES: Final = """
    SELECT dimension, cluster_id, name, sum(produced_bytes)::BIGINT AS produced, sum(fetched_bytes)::BIGINT AS fetched
    FROM traffic WHERE NOT is_follower AND dimension IN ('principal', 'topic') GROUP BY ALL
"""
_REQUESTS: Final = (
    "SELECT cluster_id, sum(requests)::BIGINT AS requests FROM traffic WHERE dimension = 'cluster' GROUP BY ALL"
)
_STORMS: Final = """
    SELECT cluster_id, listener, epoch_us(started) AS started_us, epoch_us(ended) AS ended_us, source_ip,
        source_principal, source_client_id, source_software, listener_rate, limit_quota, limited, refused,
        source_attempts
    FROM storms
"""
_NEVER_USED: Final = "SELECT cluster_id, topic FROM idle_topics WHERE last_produced IS NULL AND last_fetched IS NULL"
_LOST: Final = """
    SELECT cluster_id, broker_id, sum(missing)::BIGINT AS missing, sum(holes)::BIGINT AS holes
    FROM completeness GROUP BY ALL
"""
_Key = TypeVar("_Key")


def not_found(truth: Truth, ask: Ask) -> list[str]:
    """Sentences on each difference between the tables and the truth; empty if all is correct."""
    return [*_bytes(truth, ask), *_requests(truth, ask), *_storms(truth, ask), *_idle(truth, ask), *_lost(truth, ask)]


def _bytes(truth: Truth, ask: Ask) -> Iterator[str]:
    found: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for row in ask(_BYTES):
        for kind in ("produced", "fetched"):
            of_kind = found.setdefault((row["dimension"], kind), Counter())
            of_kind[row["cluster_id"], row["name"]] = row[kind]
    for key, what, true in (
        (("principal", "produced"), "bytes produced by", truth.produced_by),
        (("principal", "fetched"), "bytes fetched by", truth.fetched_by),
        (("topic", "produced"), "bytes produced to", truth.produced_to),
        (("topic", "fetched"), "bytes fetched from", truth.fetched_from),
    ):
        yield from _otherwise(what, +true, +found.get(key, Counter()))


def _requests(truth: Truth, ask: Ask) -> Iterator[str]:
    yield from _otherwise("requests of", truth.requests, {row["cluster_id"]: row["requests"] for row in ask(_REQUESTS)})


def _storms(truth: Truth, ask: Ask) -> Iterator[str]:
    found = {(row["cluster_id"], row["listener"], row["started_us"]): tuple(row.values())[3:] for row in ask(_STORMS)}
    true = {
        (storm.cluster_id, storm.listener, storm.started_us): (
            storm.ended_us,
            storm.client_ip,
            storm.principal,
            storm.client_id,
            storm.software,
            storm.listener_rate,
            storm.limit,
            storm.limited,
            storm.refused,
            storm.accepted + storm.refused,
        )
        for storm in truth.storms
    }
    yield from _otherwise("storm of", true, found)


def _idle(truth: Truth, ask: Ask) -> Iterator[str]:
    found = dict.fromkeys(((row["cluster_id"], row["topic"]) for row in ask(_NEVER_USED)), "never used")
    true = {(cluster, topic): "never used" for cluster, topics in truth.never_used.items() for topic in topics}
    yield from _otherwise("topic", true, found)


def _lost(truth: Truth, ask: Ask) -> Iterator[str]:
    rows = ask(_LOST)
    for what, true in (("missing", truth.missing), ("holes", truth.holes)):
        found = Counter({(row["cluster_id"], row["broker_id"]): row[what] for row in rows})
        yield from _otherwise(f"{what} of broker", +true, +found)


def _otherwise(what: str, true: Mapping[_Key, Any], found: Mapping[_Key, Any]) -> Iterator[str]:
    wrong = [key for key in {**true, **found} if true.get(key) != found.get(key)]
    for key in wrong[:SHOWN]:
        yield f"{what} {key}: {true.get(key)} is true, {found.get(key)} was found"
    if len(wrong) > SHOWN:
        yield f"{what}: {len(wrong) - SHOWN} more are not as they should be"
