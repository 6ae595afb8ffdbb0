"""Limits that a build tries on Spark: the same counts as `what-if` without Spark, as a table and on the report page."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from audit_pipeline.reading.connection_log import ConnectionLog
from audit_pipeline.reading.tried_limits import try_limits
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.report import report_of
from audit_pipeline.report.page import page
from audit_pipeline.report.window import Wanted
from audit_pipeline.results.settings import Settings
from audit_pipeline.spool.targets import open_target
from audit_pipeline.what_if.limits import limits_in
from tests.support.audit.audit_builds import built, published
from tests.support.audit.connection_storms import CALM_CONNECTIONS, DAY, STORM_CONNECTIONS, STORMY, land_storm

RATE = "listener.name.clients.max.connection.creation.rate"
LISTENER: dict[str, Any] = {
    "configs": {RATE: "10", "connection.quota.strategy": "token-bucket"},
    "quotas": [],
    "names": [{"key": RATE, "entity": None, "quota": "shop/clients"}],
    "notes": [],
}
ADDRESS: dict[str, Any] = {
    "configs": {},
    "quotas": [{"entity": {"ip": STORMY}, "key": "connection_creation_rate", "value": 1.0}],
    "names": [{"key": "connection_creation_rate", "entity": f"ip={STORMY}", "quota": "shop/stormy"}],
    "notes": [],
}
NOW_US = 1_700_100_000_000_000


@pytest.mark.full
def test_a_build_tries_limits_and_tries_others_again(spark: SparkSession, tmp_path: Path) -> None:
    target = land_storm(tmp_path)
    results = tmp_path / "results"
    text = json.dumps(LISTENER)
    manifest = built(spark, tmp_path / "segments", results, NOW_US, Settings(what_if=text))
    table = published(results)["what_if"]
    summary, _ = try_limits(ConnectionLog(target, None, None), limits_in(text))
    counted = {
        (row["limit_key"], row["client_ip"]): (row["connections"], row["accepted"], row["delayed"], row["rejected"])
        for row in table.to_pylist()
    }
    expected = {
        (None if limit is None else limit.key, address): (
            sum(tally.outcomes.values()), tally.row["accepted"], tally.row["delayed"], tally.row["rejected"],
        )
        for (limit, address), tally in summary.replayed.items()
    }  # fmt: skip
    assert counted == expected
    assert pc.sum(table["connections"]).as_py() == CALM_CONNECTIONS + STORM_CONNECTIONS
    assert set(table["event_date"].to_pylist()) == {date.fromisoformat(DAY)}
    longest = max(row["delay_max_us"] or 0 for row in table.to_pylist())
    assert longest == max(max(tally.delays_us, default=0) for tally in summary.replayed.values())

    shown = page(report_of(PublishedTables(open_target(str(results))), Wanted(days=2)), ())
    assert "shop/clients" in shown[shown.index('id="tried"') : shown.index('id="objectives"')]

    again = built(spark, tmp_path / "segments", results, NOW_US + 1, Settings(what_if=json.dumps(ADDRESS)))
    assert again.summary["hours"] == []
    rejected = [row for row in published(results)["what_if"].to_pylist() if row["quota"] == "shop/stormy"]
    assert sum(row["rejected"] for row in rejected) > 20
    assert manifest.files["usage"] == again.files["usage"]

    built(spark, tmp_path / "segments", results, NOW_US + 2, Settings())
    assert len(published(results)["what_if"]) == 0
    shown = page(report_of(PublishedTables(open_target(str(results))), Wanted(days=2)), ())
    assert "No limits were tried" in shown
