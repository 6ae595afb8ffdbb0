"""Prometheus and promtool.

`python -m tests.support.processes.prometheus` obtains them once. Tests start one on loopback. Those on the PATH are
used. Otherwise Debian's package is downloaded and unpacked into the cache, which needs no root.
"""

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.obtain import debian
from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.processes.ports import free_port

PACKAGE = "prometheus"
NAMES = ("prometheus", "promtool")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
_POLL_S = 0.1

Json = dict[str, Any]


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Raises ObtainError if it is missing."""
    found = shutil.which(name)
    if found is None and (cached := _place() / "usr" / "bin" / name).is_file():
        found = str(cached)
    if found is None:
        raise ObtainError(f"{name} is not there: `make prometheus` downloads it on Debian; else have it on the PATH")
    return found


def obtain() -> Path:
    """The path of prometheus; download it if it is missing. Raises ObtainError."""
    if not all(map(shutil.which, NAMES)) and debian.can_download():
        obtained(_place(), _is_complete, lambda fresh: debian.download(PACKAGE, fresh))
    program("promtool")
    return Path(program("prometheus"))


def _place() -> Path:
    return cache_root() / "prometheus-of-debian"


def _is_complete(place: Path) -> bool:
    return all((place / "usr" / "bin" / name).is_file() for name in NAMES)


def check_rules(*files: Path) -> None:
    """Check rules with promtool. Raises AssertionError with its message if it refuses them."""
    _promtool("check", "rules", *map(str, files))


def check_rule_tests(*files: Path) -> None:
    """Run tests of rules with promtool. Raises AssertionError with its message if they fail."""
    _promtool("test", "rules", *map(str, files))


def _promtool(*arguments: str) -> None:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus; times are in seconds since the epoch."""

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        """`data` of a response of its HTTP API. Raises AssertionError with its message if it refuses the query."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(f"{parameters}: {refused.read().decode()}") from None

    def query(self, expression: str, at_s: float | None = None) -> list[Json]:
        at = {} if at_s is None else {"time": str(at_s)}
        found: list[Json] = self.ask("query", query=expression, **at)["result"]
        return found

    def series(self, expression: str, start_s: float, end_s: float, step_s: float) -> list[Json]:
        """Series over a range: each with its labels as `metric`, and (time, text of the number) pairs as `values`."""
        found: list[Json] = self.ask(
            "query_range", query=expression, start=str(start_s), end=str(end_s), step=str(step_s)
        )["result"]
        return found

    def metric_names(self) -> set[str]:
        return set(self.ask("label/__name__/values"))

    def targets(self) -> list[Json]:
        found: list[Json] = self.ask("targets")["activeTargets"]
        return found


@contextmanager
def running_prometheus(
    folder: Path, scrape_configs: Sequence[Mapping[str, Any]], rules: Sequence[Path] = (), *, scrape_s: float = 1.0
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes at this interval, with its data in that folder.

    Raises ObtainError if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    interval = f"{round(scrape_s * 1000)}ms"
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": list(scrape_configs),
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    prometheus = Prometheus(f"http://127.0.0.1:{free_port()}")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={prometheus.url.removeprefix('http://')}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        _wait_until_ready(prometheus, process, folder / "prometheus.log")
        yield prometheus
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def _wait_until_ready(prometheus: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not _is_ready(prometheus):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise ObtainError(f"Prometheus did not start:\n{log.read_text(errors='replace')[-4000:]}")
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue


def _is_ready(prometheus: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{prometheus.url}/-/ready", timeout=ANSWER_TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(obtain))
