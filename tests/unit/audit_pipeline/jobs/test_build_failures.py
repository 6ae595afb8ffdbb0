"""The state that an unfinished build leaves behind."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from audit_pipeline.jobs import build as jobs
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.results.settings import Settings


@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (
            PySparkException("Job aborted\n  at a\nCaused by: No space left on device\n at b"),
            OSError,
            "^a disk is full",
        ),
        (PySparkException("Job aborted"), PySparkException, "Job aborted"),
        (KeyboardInterrupt("Ctrl-C"), KeyboardInterrupt, "Ctrl-C"),
    ],
)
def test_a_build_that_fails_leaves_no_drafts(
    error: BaseException,
    raised: type[BaseException],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft = tmp_path / "_drafts" / "20261122T180500-0123abcd-traffic" / "part.parquet"
    placed = tmp_path / "traffic" / "event_date=2026-11-20" / "20261122T180500-0123abcd-00000.parquet"

    class Failing:
        def __init__(self, *_: Any) -> None: ...

        def run(self, _: Any) -> None:
            for path in (draft, placed):
                path.parent.mkdir(parents=True)
                path.touch()
            raise error

    monkeypatch.setattr(jobs, "_Build", Failing)
    request = jobs.BuildRequest(str(tmp_path), Settings(), 0)
    spark: Any = None
    source: Any = None
    with pytest.raises(raised, match=says):
        jobs.build(spark, request, source, Progress(lambda: 0.0))
    assert (draft.exists(), placed.exists()) == (False, False)
