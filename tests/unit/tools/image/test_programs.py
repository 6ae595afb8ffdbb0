"""What pods call by its name alone is on PATH: the Job of an AuditPipeline calls spark-submit."""

from pathlib import Path

from tools.image.definition import IMAGES
from tools.image.site_packages import put_on_path


def test_a_program_is_called_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    put_on_path(tmp_path, [f"/opt/{program}" for program in IMAGES["audit"].programs])
    script = tmp_path / "usr/local/bin/spark-submit"
    assert script.read_text() == '#!/bin/sh\nexec /opt/pyspark/bin/spark-submit "$@"\n'
    assert script.stat().st_mode & 0o111 == 0o111
