"""Runs one target with coverage-guided inputs: libFuzzer by atheris, in a process of its own.

    python -m tests.fuzz.guided TARGET SECONDS FOLDER

FOLDER keeps the inputs that reached new code, and the input of a fault. Exits with 0 if there was no fault.
"""

import resource
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.fuzz.table import PLANTED
from tests.fuzz.table import target as target_of
from tests.fuzz.target import Run, inputs_of

INSTRUMENTED = (
    "broker_runtime",
    "connection_limits",
    "kafka_bytes",
    "sluicegate_consumer",
    "sluicegate_operator.kafka_admin",
    "audit_pipeline",
)
INPUT_TIMEOUT_S = 10
"""Seconds for one input. An honest one takes milliseconds."""
MEMORY_MAX_MB = 1_024
"""Memory of the process beyond that at its start; a node in memory needs 200 MB of it."""
CORPUS_FOLDER, FAULT_PREFIX = "corpus", "fault-"
_SLOW_S = 1.0


def options(seconds: float, folder: Path, bytes_max: int) -> Sequence[str]:
    """Return libFuzzer's options."""
    # The kernel counts the peak of the process that started this one, too.
    memory_mb = MEMORY_MAX_MB + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return [
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-rss_limit_mb={memory_mb}",
        f"-max_len={bytes_max}",
        f"-artifact_prefix={folder}/{FAULT_PREFIX}",
        "-print_final_stats=1",
        "-verbosity=1",
        str(folder / CORPUS_FOLDER),
    ]


def timed(run: Run) -> Run:
    """Return `run` with a check of its time. libFuzzer's own limit counts whole seconds, and ends the process."""

    def checked(data: bytes) -> None:
        began_s = time.process_time()
        run(data)
        took_s = time.process_time() - began_s
        assert took_s < _SLOW_S, f"an input of {len(data)} bytes takes {took_s:.1f} s"

    return checked


def main(name: str, seconds: float, folder: Path) -> None:
    """Fuzz until the time is over or a fault is found. Does not return."""
    import atheris  # noqa: PLC0415 - it has no wheel for some machines

    own = ["tests.fuzz.targets.planted"] if name == PLANTED else []
    with atheris.instrument_imports(include=[*INSTRUMENTED, *own]):
        target = target_of(name)
    corpus = folder / CORPUS_FOLDER
    corpus.mkdir(parents=True, exist_ok=True)
    for data in inputs_of(target):
        (corpus / sha256(data).hexdigest()[:16]).write_bytes(data)
    with ExitStack() as undo:
        run: Any = timed(undo.enter_context(target.opened()))
        atheris.Setup([sys.argv[0], *options(seconds, folder, target.bytes_max)], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
