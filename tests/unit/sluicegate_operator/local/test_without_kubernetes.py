"""`sluicegate up` runs the engine's reconcilers even if neither kopf nor a Kubernetes client is installed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
ABSENT = ("aiohttp", "kopf", "kubernetes", "urllib3")
PROGRAM = f"""
import importlib, pkgutil, sys
for name in {ABSENT!r}:
    sys.modules[name] = None
import sluicegate_operator.local, sluicegate_operator.engine
for package in (sluicegate_operator.local, sluicegate_operator.engine):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
from sluicegate_operator.cli.main import main
sys.argv = ["sluicegate", "up", "-f", "no such file"]
main()
"""


def test_up_needs_neither_kopf_nor_a_kubernetes_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PYTHONPATH": "operator", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no such file" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
