"""`sluicegate up` as a process for tests, over a copy of the quickstart with separate ports."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.support.processes.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = ROOT / "examples" / "quickstart"
COMMAND = (sys.executable, "-m", "sluicegate_operator.cli.main")
TIMEOUT_S = 120.0
POLL_S = 0.05


def environment_of(checkout: Path) -> dict[str, str]:
    """Return the environment in which commands run the source of this checkout."""
    path = f"{checkout}{os.pathsep}{checkout / 'operator'}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "160"}


ENVIRONMENT = environment_of(ROOT)

State = dict[str, Any]


def run_command(*arguments: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run `sluicegate ARGUMENTS` to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def copy_quickstart(folder: Path, *, brokers: int = 3, checkout: Path = ROOT) -> Path:
    """The quickstart with its additions for laptops, with `brokers` brokers and a port that other tests do not use."""
    manifests = folder / "manifests"
    for example in ("quickstart", "laptop"):
        shutil.copytree(checkout / "examples" / example, manifests, dirs_exist_ok=True)
    edit(manifests / "cluster.yaml", r"replicas: 3", f"replicas: {brokers}")
    edit(manifests / "listener.yaml", r"port: 9094", f"port: {free_port()}")
    return manifests


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Replace the pattern in one step, like an editor that saves by renaming.

    Raises ValueError if the file does not have it.
    """
    text, count = re.subn(pattern, replacement, path.read_text())
    if count == 0:
        raise ValueError(f"{path} has no {pattern}")
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


class LocalUp:
    """The process of `sluicegate up`. `stop` or the end of the `with` block ends it, and it ends its children."""

    def __init__(self, manifests: Path, data_dir: Path, *options: str, checkout: Path = ROOT) -> None:
        """`checkout` is the source that runs."""
        self.checkout = checkout
        self.manifests = manifests
        self.data_dir = data_dir
        self.options = options
        self.log = data_dir.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "up", "--watch", "-f", str(self.manifests), "--data-dir", str(self.data_dir), *self.options],
                cwd=self.checkout,
                env=environment_of(self.checkout),
                stdout=log,
                stderr=log,
            )
        try:
            self.wait_for_line("ready; Ctrl-C stops everything")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def output(self) -> str:
        return self.log.read_text()

    def state(self) -> State:
        state: State = json.loads((self.data_dir / "state.json").read_text())
        return state

    def nodes(self, role: str | None = None) -> list[State]:
        nodes: list[State] = self.state()["clusters"]["shop"]["nodes"]
        return [node for node in nodes if role in (None, node["role"])]

    def pids(self) -> list[int]:
        return [node["pid"] for node in self.nodes()]

    def external(self, broker: int = 0) -> str:
        address: str = self.nodes("broker")[broker]["listeners"]["EXTERNAL"]
        return address

    def status(self) -> State:
        """The cluster as `sluicegate status -o json` shows it, whatever its exit code."""
        done = run_command("status", "-o", "json", "--data-dir", str(self.data_dir))
        if not done.stdout:
            raise RuntimeError(done.stderr)
        cluster: State = json.loads(done.stdout)["clusters"][0]
        return cluster

    def bootstrap(self) -> str:
        return ",".join(node["listeners"]["EXTERNAL"] for node in self.nodes("broker"))

    def brokers(self) -> dict[int, State]:
        """The controller's view by broker id; empty while the controller does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.nodes('controller')[0]['http']}/brokers", timeout=15) as answer:
                return {broker["id"]: broker for broker in json.load(answer)["brokers"]}
        except OSError:
            return {}

    def all_online(self, count: int) -> bool:
        """Whether exactly so many brokers are online, and in sync."""
        brokers = self.brokers()
        states = [(broker["state"], broker["outOfSync"]) for broker in brokers.values()]
        return states == [("Online", 0)] * count

    def wait_for_line(self, text: str, *, count: int = 1, timeout_s: float = TIMEOUT_S) -> None:
        self.wait_until(lambda: self.output().count(text) >= count, f"{text!r} in its output", timeout_s)

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"not within {timeout_s} s: {what}\n{self.output()}")
            try:
                code = self._process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"`sluicegate up` ended with code {code} before {what}\n{self.output()}")


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not: it only waits for the process that adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_dead(pids: list[int], timeout_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    pause = subprocess.Popen(["sleep", str(timeout_s)])
    try:
        while alive := [pid for pid in pids if is_alive(pid)]:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"still running after {timeout_s} s: {alive}")
            try:
                pause.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        pause.kill()
        pause.wait()
