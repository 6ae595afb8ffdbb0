"""Runs the commands of a page word by word, as a reader does in several terminals.

with Terminals(folder, CONTINUING) as terminals:
    terminals.follow(page)
    assert "accepted" in terminals.ended("sluicegate storm")

A block whose first line changes the shell (`. .venv/bin/activate`, `cd`) begins a new terminal. A command that
continues until Ctrl-C keeps its terminal; the next block is in another one.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.support.pages.blocks import blocks

TIMEOUT_S = 240.0
POLL_S = 0.05
STOP_TIMEOUT_S = 60.0
ROWS, COLUMNS = 40, 120
_CHANGES_THE_SHELL = re.compile(r"\. |cd |export |make venv && \. ")
_COMMENT = re.compile(r"\s+#\s.*$")


class PageError(AssertionError):
    """Error of a command of a page. The message has the command and its output."""


@dataclass(slots=True)
class Continuing:
    """A command that continues while the next ones run, and the file with its output."""

    command: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass(slots=True)
class Terminals:
    """The terminals of a reader in `folder`.

    - `continuing`: by the beginning of a command that does not end by itself, or that runs beside the next ones: a text
      of its output after which the reader continues. An empty text means at once.
    - `screens`: by the beginning of a command that fills the terminal: a text that it shows. Then it gets the key `q`.
    - `changes`: texts of the page and what stands for them on this machine, such as a port that no other test uses.
    """

    folder: Path
    continuing: Mapping[str, str]
    screens: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    _running: list[Continuing] = field(default_factory=list)
    _outputs: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._running):
            _end(one.process)

    def follow(self, page: str) -> None:
        """Run the commands of all blocks `sh` in their order. Raises PageError for one that fails."""
        prologue: list[str] = []
        for block in blocks(page, "sh"):
            if _CHANGES_THE_SHELL.match(block[0]):
                prologue = []
            for line in block:
                self.run(line, prologue)
                if _CHANGES_THE_SHELL.match(line):
                    prologue.append(line)

    def run(self, line: str, prologue: Sequence[str] = ()) -> None:
        """Run one line in a shell that has run the lines of `prologue` before."""
        command = _COMMENT.sub("", line)
        for text, here in self.changes.items():
            command = command.replace(text, here)
        self.commands.append(command)
        script = "\n".join([*prologue, command])
        awaited, shown = _text_for(command, self.continuing), _text_for(command, self.screens)
        if awaited is not None:
            self._begin(command, script, awaited)
        elif shown is not None:
            self._outputs[command] = self._screen(command, script, shown)
        else:
            done = subprocess.run(
                _shell(script), cwd=self.folder, env=self._environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise PageError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{self._all()}")
            self._outputs[command] = done.stdout

    def output(self, start: str) -> str:
        """Return the present output of the command with this beginning. Raises KeyError without one."""
        for one in self._running:
            if one.command.startswith(start):
                return one.output
        for command, text in self._outputs.items():
            if command.startswith(start):
                return text
        raise KeyError(start)

    def _continuing(self, start: str) -> Continuing:
        return next(one for one in self._running if one.command.startswith(start))

    def ended(self, start: str) -> str:
        """Wait for the end of a continuing command. Return its output. Raises PageError for an exit code."""
        one = self._continuing(start)
        code = one.process.wait(TIMEOUT_S)
        if code != 0:
            raise PageError(f"{one.command}: exit code {code}\n{one.output}")
        return one.output

    def interrupt(self, start: str) -> str:
        """Press Ctrl-C in the terminal of a continuing command, and wait for its end. Return its output."""
        one = self._continuing(start)
        os.killpg(one.process.pid, signal.SIGINT)
        one.process.wait(STOP_TIMEOUT_S)
        return one.output

    def until(self, start: str, text: str) -> None:
        """Wait until a continuing command has printed this text. Raises PageError."""
        one = self._continuing(start)
        _await(one, text)

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "LANG": "C.UTF-8", **self.environment}

    def _begin(self, command: str, script: str, awaited: str) -> None:
        path = self.folder / f"terminal-{len(self._running)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                _shell(script), cwd=self.folder, env=self._environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        one = Continuing(command, process, path)
        self._running.append(one)
        _await(one, awaited)

    def _screen(self, command: str, script: str, shown: str) -> str:
        """Run a command in a terminal of its own until it has shown a text, and press `q`. Return what it has drawn."""
        terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            _shell(script), cwd=self.folder, env=self._environment, stdin=other, stdout=other, stderr=other,
            start_new_session=True,
        )  # fmt: skip
        os.close(other)
        drawn = bytearray()
        deadline_s = time.monotonic() + TIMEOUT_S
        pressed = False
        try:
            while _read(terminal, drawn):
                if not pressed and shown.encode() in drawn:
                    os.write(terminal, b"q")
                    pressed = True
                if time.monotonic() > deadline_s:
                    raise PageError(f"{command} did not show {shown!r}: {drawn[-4000:].decode(errors='replace')}")
            code = process.wait(STOP_TIMEOUT_S)
        finally:
            _end(process)
            os.close(terminal)
        if code != 0 or not pressed:
            raise PageError(f"{command}: exit code {code}: {drawn[-4000:].decode(errors='replace')}")
        return drawn.decode(errors="replace")

    def _all(self) -> str:
        return "\n".join(f"--- {one.command}\n{one.output[-4000:]}" for one in self._running)


def _text_for(command: str, texts: Mapping[str, str]) -> str | None:
    """Return the text by the beginning of the command; None without one."""
    return next((text for start, text in texts.items() if command.startswith(start)), None)


def _shell(script: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", script]


def _await(one: Continuing, text: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while text not in one.output:
        if time.monotonic() > deadline_s:
            raise PageError(f"{one.command} did not print {text!r} in time:\n{one.output}")
        try:
            code = one.process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            continue
        if text not in one.output:
            raise PageError(f"{one.command} ended with code {code} before {text!r}:\n{one.output}")


def _read(terminal: int, drawn: bytearray) -> bool:
    """Append what the terminal has to `drawn`, and wait a moment for it. Return False at its end."""
    if not select.select([terminal], [], [], POLL_S)[0]:
        return True
    try:
        piece = os.read(terminal, 1 << 16)
    except OSError:
        return False
    drawn += piece
    return bool(piece)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its children: by Ctrl-C, and after a minute without mercy."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
