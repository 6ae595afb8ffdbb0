"""Fuzzes many targets: a process for each, some at a time, and a table of what they did."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STARTUP_S = 600.0
"""Time for imports, for the inputs of the corpus, and for an input that takes too long."""
_TOLD_LINES = 40
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_REACHED = re.compile(r"cov: (\d+) ft: (\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the process of one target.

    `fault` is the end of its output if it has found a fault, or has ended.
    """

    name: str
    inputs: int
    edges: int | None
    """Edges of the code that inputs have reached. None without atheris."""
    fault: str | None

    def line(self) -> str:
        edges = "" if self.edges is None else f", {self.edges} edges"
        return f"{self.name}: {self.inputs} inputs{edges}{'' if self.fault is None else ', FAULT'}"


def is_guided() -> bool:
    """Whether atheris is installed. It has wheels for Linux on x86_64 only."""
    return find_spec("atheris") is not None


def campaign(names: Sequence[str], seconds: float, folder: Path, jobs: int) -> Iterator[Outcome]:
    """Fuzz each target for `seconds`, `jobs` at a time. Yield outcomes in the order of the names."""
    module = "tests.fuzz.guided" if is_guided() else "tests.fuzz.unguided"

    def fuzz(name: str) -> Outcome:
        own = folder / name
        own.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", module, name, str(seconds), str(own)]
        log = own / "log"
        with log.open("wb") as output:
            try:
                code = subprocess.run(
                    command, stdout=output, stderr=output, cwd=ROOT, timeout=seconds + _STARTUP_S, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
        return outcome(name, code, log.read_text(errors="replace"))

    with ThreadPoolExecutor(jobs) as threads:
        yield from threads.map(fuzz, names)


def outcome(name: str, code: int | None, output: str) -> Outcome:
    """Return the outcome in the output of a process. `code` is its exit code, None if it did not end in time."""
    executed, reached = _EXECUTED.findall(output), _REACHED.findall(output)
    fault = None
    if code != 0:
        ended = "did not end in time" if code is None else f"ended with {code}"
        fault = f"{name} {ended}\n" + "\n".join(output.splitlines()[-_TOLD_LINES:])
    return Outcome(name, int(executed[-1]) if executed else 0, int(reached[-1][0]) if reached else None, fault)
