"""Messages of a Spark session at its start, in a separate process."""

import subprocess
import sys

import pytest

from tests.support.obtain.java import java

pytestmark = pytest.mark.full

PROGRAM = """
from audit_pipeline.jobs.session import spark_session

with spark_session(config={"spark.master": "local[1]", "spark.executor.port": "0"}) as session:
    print(session.range(3).count())
"""
BY_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector"
"""Spark's launcher requires that module, and Java prints the warning."""


def test_a_session_begins_with_the_warnings_that_somebody_can_do_something_about() -> None:
    java()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
    said = [line for line in done.stderr.splitlines() if line and line != BY_JAVA]
    assert [line for line in said if "spark.executor.port" not in line] == []
    assert said, "a setting that Spark has given up is told"
