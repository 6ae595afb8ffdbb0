"""Programs that pods call by name alone are on PATH: the Job of an AuditPipeline calls spark-submit."""

from pathlib import Path

from tools.image.definition import IMAGES
from tools.image.site_packages import put_on_path


def test_a_wrapper_on_path_calls_a_program_at_its_location(tmp_path: Path) -> None:
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    audit = IMAGES["audit"]
    put_on_path(tmp_path, [f"/opt/{program}" for program in audit.programs])
    script = tmp_path / "usr/local/bin/spark-submit"
    first, second = script.read_text().splitlines()
    assert first.removeprefix("#!/bin/") in audit.packages
    assert second == 'exec /opt/pyspark/bin/spark-submit "$@"'
    assert script.stat().st_mode & 0o111 == 0o111
