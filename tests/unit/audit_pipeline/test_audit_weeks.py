"""Generated weeks against the oracle: DuckDB finds the truth of a week in its files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.results.settings import Objective, Prices, Settings
from audit_pipeline.results.tables import result_tables
from tests.support.audit.audit_oracle.comparing import all_differences, differences
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.truth import Truth
from tests.support.audit.audit_weeks.week import SPOILS, Week, arrivals, put, write_week

WEEK = Week(days=5, events=6_000, seed=3, topics=4, principals=6, inventory_hours=3)
PRICES = Prices("EUR", {"ingress": 0.02, "egress": 0.05, "requests": 0.2, "storage": 0.1, "partitions": 0.001})
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Answered:
    """A week on a disk, its truth and the results of the oracle."""

    truth: Truth
    tables: dict[str, pa.Table]
    folder: Path

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        return iter(self.tables[table].to_pylist())


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    folder = tmp_path_factory.mktemp("week")
    truth = write_week(WEEK, folder)
    settings = Settings(PRICES, (Objective("produce", "Produce", 5.0, 0.99),), WEEK.mirrors)
    return Answered(truth, audit_results(folder, WEEK.now_us, settings), folder)


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def test_every_table_is_answered_in_its_schema(answered: Answered) -> None:
    assert answered.tables.keys() == result_tables().keys()
    # No limits were given to try, and invented weeks have no times of decisions, so that no suggestion is tried either.
    assert [name for name, table in answered.tables.items() if not table.num_rows] == ["what_if", "tried_limits"]


def test_damaged_files_are_exactly_the_quarantined_ones(answered: Answered) -> None:
    found = list(answered.rows("quarantine"))
    assert {(row["path"], row["reason"]) for row in found} == answered.truth.set_aside
    assert {row["reason"] for row in found} == {"corrupt", "version", "clock", "future", "duplicate"}
    clocks = {row["path"]: row["rows"] for row in found if row["reason"] == "clock"}
    assert clocks == answered.truth.impossible_rows
    assert all(row["event_date"] and row["cluster_id"] for row in found), "a torn file is known by its path"


def test_bytes_are_those_of_the_truth(answered: Answered) -> None:
    truth = answered.truth
    sums: dict[str, Counter[tuple[object, object]]] = {name: Counter() for name in ("by", "from", "to", "of")}
    replicated: Counter[object] = Counter()
    for row in answered.rows("traffic"):
        key = row["cluster_id"], row["name"]
        if row["is_follower"]:
            replicated[row["cluster_id"]] += row["fetched_bytes"] if row["dimension"] == "cluster" else 0
        elif row["dimension"] == "principal":
            sums["by"][key] += row["produced_bytes"]
            sums["from"][key] += row["fetched_bytes"]
        elif row["dimension"] == "topic":
            sums["to"][key] += row["produced_bytes"]
            sums["of"][key] += row["fetched_bytes"]
    assert +sums["by"] == +truth.produced_by
    assert +sums["from"] == +truth.fetched_by
    assert +sums["to"] == +truth.produced_to
    assert +sums["of"] == +truth.fetched_from
    assert replicated == truth.replicated


def test_requests_are_counted_once(answered: Answered) -> None:
    found: Counter[object] = Counter()
    for row in answered.rows("traffic"):
        found[row["cluster_id"]] += row["requests"] if row["dimension"] == "cluster" else 0
    assert found == answered.truth.requests


def test_storms_have_their_source(answered: Answered) -> None:
    found = {row["started"]: row for row in answered.rows("storms")}
    assert set(found) == {moment(storm.started_us) for storm in answered.truth.storms}
    for storm in answered.truth.storms:
        row = found[moment(storm.started_us)]
        assert (row["cluster_id"], row["listener"], row["ended"]) == (
            storm.cluster_id,
            storm.listener,
            moment(storm.ended_us),
        )
        assert (row["source_ip"], row["source_principal"], row["source_client_id"], row["source_software"]) == (
            storm.client_ip,
            storm.principal,
            storm.client_id,
            storm.software,
        )
        assert (row["limit_quota"], row["listener_rate"]) == (storm.limit, storm.listener_rate)
        assert (row["limited"], row["refused"]) == (storm.limited, storm.refused)
        assert row["source_attempts"] == storm.accepted + storm.refused
        for phase in ("before", "during"):
            assert (row[f"others_p99_{phase}_us"] is None) == (row[f"others_requests_{phase}"] == 0)
    assert any(row["others_requests_during"] for row in found.values())


def test_topics_that_nobody_uses_are_idle(answered: Answered) -> None:
    never = {
        (row["cluster_id"], row["topic"])
        for row in answered.rows("idle_topics")
        if row["last_produced"] is None and row["last_fetched"] is None
    }
    assert never == {(cluster, topic) for cluster, topics in answered.truth.never_used.items() for topic in topics}
    spare = {row["topic"] for row in answered.rows("idle_topics") if row["is_spare"]}
    assert spare == {"checkout-dlq"}


def test_lost_and_lagging_records_of_the_mirror_are_distinguished(answered: Answered) -> None:
    truth = answered.truth
    produced: Counter[object] = Counter()
    found: dict[str, set[tuple[object, object]]] = {}
    for row in answered.rows("correctness"):
        if row["topic"] in {topic for topic, _ in truth.mirrored_records}:
            produced[row["topic"]] += row["produced_ending"]
            found.setdefault(row["status"], set()).add((row["topic"], row["bucket"]))
            if row["status"] == "loss":
                bucket_us = (row["bucket"] - EPOCH) // timedelta(microseconds=1)
                assert 0 < row["missing"] <= truth.lost_records[row["topic"], bucket_us]
    by_topic: Counter[object] = Counter()
    for (topic, _), records in truth.mirrored_records.items():
        by_topic[topic] += records
    assert produced == by_topic
    assert found["loss"] == {(topic, moment(bucket)) for topic, bucket in truth.lost_records}
    lagging = {(topic, moment(bucket)) for topic, bucket in truth.lagging_records}
    assert ("orders", max(bucket for _, bucket in lagging)) in found["lagging"]
    assert found["lagging"] <= lagging
    assert "surplus" not in found


def test_gaps_and_holes_are_counted(answered: Answered) -> None:
    missing: Counter[tuple[object, object]] = Counter()
    holes: Counter[tuple[object, object]] = Counter()
    for row in answered.rows("completeness"):
        missing[row["cluster_id"], row["broker_id"]] += row["missing"]
        holes[row["cluster_id"], row["broker_id"]] += row["holes"]
    assert +missing == +answered.truth.missing
    assert +holes == +answered.truth.holes


def test_shares_of_a_day_add_up_to_all_of_it(answered: Answered) -> None:
    shares: dict[tuple[object, object, object], float] = defaultdict(float)
    for row in answered.rows("cost"):
        shares[row["event_date"], row["cluster_id"], row["dimension"]] += row["share"]
    assert list(shares.values()) == [pytest.approx(1.0)] * len(shares)
    assert any(row["name"] is None for row in answered.rows("cost"))


def test_the_same_week_is_the_same_bytes_in_any_pieces(answered: Answered, tmp_path: Path) -> None:
    batches, truth = arrivals(WEEK)
    assert truth == answered.truth
    assert len(batches) == WEEK.days + 1
    for batch in reversed(batches):
        for file in batch:
            put(file, tmp_path)
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet"))
    assert files == sorted(path.relative_to(answered.folder) for path in answered.folder.rglob("*.parquet"))
    assert all((tmp_path / path).read_bytes() == (answered.folder / path).read_bytes() for path in files)


def test_a_week_without_faults_is_complete(tmp_path: Path) -> None:
    week = replace(WEEK, days=1, events=500, spoils=(), storm=0, segments=3)
    write_week(week, tmp_path)
    found = audit_results(tmp_path, week.now_us, Settings(mirrors=week.mirrors))
    assert found["quarantine"].num_rows == 0
    assert found["storms"].num_rows == 0
    assert all(row["is_complete"] for row in found["completeness"].to_pylist())
    assert {*SPOILS} > set(week.spoils)


def test_differences_are_told(answered: Answered) -> None:
    tables = answered.tables
    assert all_differences(tables, tables) == []
    short = {**tables, "storms": tables["storms"].slice(1)}
    assert any("is missing" in said for said in all_differences(tables, short))
    bins = tables["storm_bins"]
    place = bins.schema.get_field_index("accepted")
    other = bins.set_column(
        place, bins.schema.field(place), pa.array([1 + row for row in bins["accepted"].to_pylist()])
    )
    assert differences("storm_bins", bins, other)
    assert differences("storm_bins", bins, other, without=["accepted"]) == []
