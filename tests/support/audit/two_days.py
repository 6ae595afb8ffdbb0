"""Two days of an audit log with faults, and their results; small, as builds are slow."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.results.settings import Settings, read_mirrors, read_objectives, read_prices
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.spoiling import Landed
from tests.support.audit.audit_weeks.week import PREFIX, Week, arrivals, cluster_id, put

DAYS = Week(
    days=2,
    segments=3,
    hours=2,
    events=1_000,
    seed=7,
    topics=4,
    principals=6,
    spoils=("skewed", "torn", "flipped", "late", "merged", "gap"),
    # Earlier than the day of any run.
    first_day=date(2024, 5, 6),
)
SETTINGS_TEXTS = {
    "prices": json.dumps({"currency": "EUR", "ingress_per_gib": 0.02, "partition_per_hour": 0.001}),
    "objectives": json.dumps({"objectives": [{"name": "produce", "api": "Produce", "latency_ms": 5, "target": 0.99}]}),
    "mirrors": json.dumps(
        {
            "mirrors": [
                {"name": "eu", "source_cluster": cluster_id(0), "mirror_cluster": cluster_id(1), "prefix": PREFIX}
            ]
        }
    ),
}
"""Settings in the form of `build`'s options, by their names."""
SETTINGS = Settings(
    read_prices(SETTINGS_TEXTS["prices"]),
    read_objectives(SETTINGS_TEXTS["objectives"]),
    read_mirrors(SETTINGS_TEXTS["mirrors"]),
)


@dataclass(frozen=True, slots=True)
class TwoDays:
    """An audit log of two days. `batches` are files in the order in which they arrive.

    `segments` has them all; `results` is what a build makes of them, as DuckDB computes it.
    """

    batches: Sequence[Sequence[Landed]]
    segments: Path
    results: dict[str, pa.Table]


@pytest.fixture(scope="session")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> TwoDays:
    segments = tmp_path_factory.mktemp("two-days")
    batches, _ = arrivals(DAYS)
    for batch in batches:
        for file in batch:
            put(file, segments)
    results = audit_results(segments, DAYS.now_us, SETTINGS)
    # The settings name no limits to try, and no suggested limit delays a connection of this log.
    assert [name for name, table in results.items() if not table.num_rows] == ["what_if", "tried_limits"]
    return TwoDays(batches, segments, results)
