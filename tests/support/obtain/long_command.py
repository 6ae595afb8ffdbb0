"""Runs a command of a set-up step that may take minutes: a build with Go, a download by Go or Maven.

The command reports progress at least every 15 s, even while it prints nothing. A command that fails or that exceeds the
time limit ends in an ObtainError, whose message names the `make` target to repeat.
"""

import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.obtain.cache import ObtainError, show

LIMIT_VARIABLE = "SLUICEGATE_SETUP_LIMIT_S"
"""Environment variable with the time limit of one command, in seconds."""
_LIMIT_S = 5400.0
PROGRESS_INTERVAL_S = 15.0
OUTPUT_LINES_KEPT = 80
"""Number of the last lines of standard error that the message of a failure shows."""


@dataclass(slots=True)
class Progress:
    """The output of a command so far: its last lines, and the counts that `count` keeps of them."""

    count: Callable[[str], str]
    """Takes one line of standard error and returns a summary of all lines so far, empty for none."""
    summary: str = ""
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=OUTPUT_LINES_KEPT))

    def follow(self, stderr: IO[str]) -> None:
        """Read until the command closes its standard error."""
        for line in stderr:
            self.last_lines.append(line)
            self.summary = self.count(line)


def limit_s() -> float:
    """Time limit of one command, in seconds. Raises ObtainError for a value that is not a positive number."""
    given = os.environ.get(LIMIT_VARIABLE)
    if given is None:
        return _LIMIT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ObtainError(f"{LIMIT_VARIABLE} is {given!r}; set it to a number of seconds above 0")
    return seconds


def run_long(
    target: str,
    deed: str,
    command: Sequence[str],
    *,
    count: Callable[[str], str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run the command to its end and return its standard output.

    `deed` is a noun phrase for messages, such as "the build of Helm v3.21.4"; `target` is the `make` target that runs
    the command. Raises ObtainError when the command fails or exceeds `limit_s()`.
    """
    limit, started = limit_s(), time.monotonic()
    show(target, f"{deed} ...")
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=None if env is None else dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        progress, printed = Progress(count), list[str]()
        readers = [
            threading.Thread(target=progress.follow, args=(running.stderr,)),
            threading.Thread(target=printed.extend, args=(running.stdout,)),
        ]
        for reader in readers:
            reader.start()
        try:
            _wait(running, target, deed, progress, started, limit)
        except BaseException:
            running.kill()
            raise
        finally:
            for reader in readers:
                reader.join()
    output = "".join(printed)
    if running.returncode != 0:
        raise ObtainError(f"{deed} failed:\n{''.join(progress.last_lines) or output[-800:]}")
    show(target, f"{deed}: done in {time.monotonic() - started:.0f} s")
    return output


def _wait(
    running: subprocess.Popen[str], target: str, deed: str, progress: Progress, started: float, limit: float
) -> None:
    while True:
        elapsed = time.monotonic() - started
        try:
            running.wait(min(PROGRESS_INTERVAL_S, max(0.0, limit - elapsed)))
        except subprocess.TimeoutExpired:
            elapsed = time.monotonic() - started
            if elapsed >= limit:
                raise ObtainError(
                    f"{deed} did not end within {limit:g} s; run `make {target}` again, which continues from what is"
                    f" already built, or set {LIMIT_VARIABLE} to more seconds"
                ) from None
            show(target, f"{deed}: {progress.summary + ', ' if progress.summary else ''}{elapsed:.0f} s")
        else:
            return
