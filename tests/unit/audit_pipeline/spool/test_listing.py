"""Files in which upkeep notes its work are read, or refused with what to do."""

from pathlib import Path

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.spool.listing import CompactionPlan, compaction_plans, plan_path, segment_paths
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.retention import EXPIRED, expired

PLAN = CompactionPlan(("request/a.parquet",), (("request/_b.parquet", "request/b.parquet"),), True)
PATH = plan_path("broker-1")


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    target.put(PATH, PLAN.packed())
    assert compaction_plans(target, [PATH, plan_path("gone"), "other.json"]) == {PATH: PLAN}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b'{"originals": [1]}', PLAN.packed()[:-4], b"[" * 100_000]
)
def test_a_damaged_note_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    target = FolderTarget(tmp_path)
    target.put(PATH, content)
    with pytest.raises(BadUseError, match=rf"{PATH} is damaged \(.*restore the file"):
        segment_paths(target)
    target.put(EXPIRED, content or b'[["c"]]')
    if content != b"[]":
        with pytest.raises(BadUseError, match=f"{EXPIRED} is damaged"):
            expired(target)
