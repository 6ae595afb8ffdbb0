"""The command's process while the console runs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[6]
PROGRAM = """
import gc
from sluicegate_operator.cli.top.console.running import collect_rarely
collect_rarely()
runs = []
gc.callbacks.append(lambda phase, info: runs.append(info["generation"]))
for _ in range(20):
    rows = [(number,) for number in range(1000)]
assert runs == [], runs
made = [[number] for number in range(60_000)]
assert runs, "objects with cycles are still freed"
"""


def test_a_thousand_rows_of_a_refresh_do_not_start_the_garbage_collector() -> None:
    program = f"import sys\nsys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
