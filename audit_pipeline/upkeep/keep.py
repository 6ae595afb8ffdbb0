"""Keeps landing running: `land` in a process of its own, restarted whenever it ends. Shell.

It is the process of the container beside a broker. Kubernetes considers a pod ready while all of its containers run. If
this one ended for lack of credentials, or because of a crash in a library, the broker would go out of service.
"""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_PAUSE_MAX_S = 60.0
_STEADY_S = 60.0
"""A process that ran at least this long is restarted after a short pause."""
_POLL_S = 0.5
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def keep(land: Sequence[str], variables: Path | None, stopped: Event) -> None:
    """Run `python -m audit_pipeline land --follow` with these arguments until `stopped`, and wait for its end.

    `variables` is a folder, such as a mounted Secret: each file in it is an environment variable. A new or changed file
    restarts the process. The arguments must be valid: invalid ones would fail on every restart.
    """
    command = [sys.executable, "-m", "audit_pipeline", "land", "--follow", *land]
    pause_s = _FIRST_PAUSE_S
    while not stopped.is_set():
        began_s = time.monotonic()
        ended = _run(command, variables, stopped)
        if ended is None:
            pause_s = _FIRST_PAUSE_S
            continue
        pause_s = _FIRST_PAUSE_S if time.monotonic() - began_s > _STEADY_S else min(pause_s * 2, _PAUSE_MAX_S)
        log.error("landing ended (%s) and restarts in %g s", ended, pause_s)
        stopped.wait(pause_s)


def _run(command: Sequence[str], variables: Path | None, stopped: Event) -> str | None:
    """Return the exit code or error with which the process ended, as text; None if this process has ended it."""
    given, problems = read_variables(variables)
    for problem in problems:
        log.warning("%s", problem)
    try:
        process = subprocess.Popen(command, env={**os.environ, **given})
    except OSError as error:
        return str(error)
    while process.poll() is None:
        if stopped.wait(_POLL_S):
            process.terminate()
            process.wait()
            return None
        if read_variables(variables)[0] != given:
            log.info("the variables in %s have changed: landing restarts", variables)
            process.terminate()
            process.wait()
            return None
    return None if stopped.is_set() else f"exit code {process.returncode}"


def read_variables(folder: Path | None) -> tuple[dict[str, str], list[str]]:
    """Return the variables, and a message for each file that is not a variable.

    A missing folder has no variables.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    if folder is None or not folder.is_dir():
        return found, problems
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        return found, [f"the variables in {folder} cannot be read: {error}"]
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8").rstrip("\n")
        except (OSError, ValueError) as error:
            problems.append(f"{path} cannot be read as a variable: {error}")
            continue
        if _VARIABLE.fullmatch(path.name) and "\0" not in text:
            found[path.name] = text
        else:
            problems.append(
                f"{path} is not a variable: its name must be that of a variable, and its text must not contain "
                "zero bytes"
            )
    return found, problems
