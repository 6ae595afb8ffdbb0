"""Facts from the path of a segment's file, if its footer is unreadable."""

from datetime import date

import pytest

from audit_pipeline.spool.segment import folder_of, parse_segment_path, segment_name

OPENED_US = 1_794_268_800_000_000
BOOT = "01a1bd9ad3b8000001"


@pytest.mark.parametrize("cluster_id", ["abc", "_Zq3", ".hidden", "with-dashes-2", "9"])
@pytest.mark.parametrize("segment", ["00000007", "00000007-00000012"])
def test_a_path_tells_day_cluster_and_broker(cluster_id: str, segment: str) -> None:
    path = f"{folder_of('request', OPENED_US)}/{segment_name(cluster_id, 12, BOOT, segment)}"
    assert parse_segment_path(path) == (date(2026, 11, 10), cluster_id, 12)


@pytest.mark.parametrize(
    "path",
    [
        "request/somewhere.parquet",
        f"request/arrival_date=2026-11-10/arrival_hour=01/{BOOT}.parquet",
        f"request/arrival_date=2026-13-10/arrival_hour=01/abc-12-{BOOT}-00000001.parquet",
    ],
)
def test_another_path_tells_nothing(path: str) -> None:
    assert parse_segment_path(path) is None
