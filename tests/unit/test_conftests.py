"""A test of one module starts in a second: conftests that every run loads import neither Spark nor Arrow nor numpy."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LARGE = ("numpy", "pandas", "py4j", "pyarrow", "pyspark")
CONFTESTS = ("conftest", "tests.unit.conftest")
IMPORT_ALL = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]; print(*sys.modules)"


def test_conftests_of_every_run_import_no_large_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *CONFTESTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded.issuperset(CONFTESTS)
    assert loaded.isdisjoint(LARGE)
