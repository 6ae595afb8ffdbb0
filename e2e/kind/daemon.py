"""Docker's daemon in separate namespaces for network, mounts and processes; it ends completely with its first process.

A file has the number of that first process. Killing it suffices: the kernel then ends every process of the namespace,
including nodes and pods, and removes mounts, interfaces and rules. The host's are never touched.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.waiting import NotInTimeError, wait_for
from e2e.kind.places import tools_folder
from e2e.kind.tools import RUNC_WITHOUT_RESOURCE, with_libraries
from tests.support.obtain.cache import ObtainError

START_TIMEOUT_S = 90.0
"""The daemon starts in one to seven seconds; a loaded machine takes longer."""

END_TIMEOUT_S = 180.0
"""The daemon ends in a second; a loaded machine has hundreds of processes to end and folders to remove first."""

COMMAND_TIMEOUT_S = 600.0
CGROUP_ROOT = Path("/sys/fs/cgroup")
_LOG_SHOWN = 3000


class Daemon:
    """One daemon: its images and containers in `disks`, its sockets and state in `run`.

    `environment` is called when a program is run; ending a daemon needs none.
    """

    def __init__(self, disks: Path, run: Path, environment: Callable[[], dict[str, str]]) -> None:
        self._disks = disks
        self._run = run
        self._environment = environment
        self.log = run / "dockerd.log"

    @property
    def pid(self) -> int | None:
        """Return the id of the daemon's first process; None if the daemon does not run."""
        try:
            noted = self._first_process.read_text()
        except FileNotFoundError:
            return None
        began = _start_of(noted)
        if began is None:
            return None
        number = int(noted.partition(" ")[0])
        return number if _start_of(_stat_of(number)) == began else None

    def start(self) -> None:
        """Start the daemon and wait until it answers. Raises ObtainError."""
        environment = self._environment()
        for folder in (self._disks, self._run):
            folder.mkdir(parents=True, exist_ok=True)
        settings = self._run / "daemon.json"
        settings.write_text(json.dumps(self._settings(), indent=1))
        apart = "--net --mount --propagation private --pid --fork --kill-child --mount-proc"
        inside = f"ip link set lo up && exec tini -s -- dockerd --config-file {settings}"
        # The process records itself first, so that the next run finds it even if this run is killed now.
        note = f'read -r stat < /proc/$$/stat && echo "$stat" > {self._first_process}'
        with self.log.open("ab") as output:
            first = subprocess.Popen(
                ["sh", "-c", f"{note} && exec unshare {apart} sh -c '{inside}'"],
                env=with_libraries(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def answers() -> bool:
            if first.poll() is not None:
                raise ObtainError(f"Docker's daemon ended with code {first.returncode}:\n{self._end_of_log()}")
            return subprocess.run(
                ["docker", "version"], env=environment, capture_output=True, timeout=60, check=False
            ).returncode == 0  # fmt: skip

        try:
            wait_for("Docker's daemon answers", answers, timeout_s=START_TIMEOUT_S, interval_s=0.2)
        except NotInTimeError as late:
            raise ObtainError(f"{late}:\n{self._end_of_log()}") from late

    def end(self) -> None:
        """Kill the daemon and all its processes, and remove its control groups."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_for(f"process {pid} ends", lambda: self.pid is None, timeout_s=END_TIMEOUT_S)
        wait_for("control groups are empty", self._remove_control_groups, timeout_s=END_TIMEOUT_S)

    def docker(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run docker and return its standard output. Raises ObtainError."""
        try:
            done = subprocess.run(
                ["docker", *arguments],
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as silence:
            raise ObtainError(f"docker {arguments[0]} does not end within {timeout_s:g} s") from silence
        if done.returncode != 0:
            raise ObtainError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _settings(self) -> dict[str, object]:
        programs = tools_folder() / "usr/sbin"
        return {
            "data-root": str(self._disks),
            "exec-root": str(self._run / "exec"),
            "pidfile": str(self._run / "dockerd.pid"),
            "hosts": [f"unix://{self._run / 'docker.sock'}"],
            "group": "root",
            "storage-driver": "overlay2",
            "cgroup-parent": f"/{self._control_group}",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "userland-proxy-path": shutil.which("docker-proxy", path=f"{programs}:/usr/sbin:/usr/bin"),
            "runtimes": {"without-resource": {"path": str(programs / RUNC_WITHOUT_RESOURCE)}},
            "default-runtime": "without-resource",
        }

    @property
    def _first_process(self) -> Path:
        return self._run / "first-process"

    @property
    def _control_group(self) -> str:
        return f"sluicegate-kind-{self._run.name}"

    def _remove_control_groups(self) -> bool:
        tops = [*CGROUP_ROOT.glob(f"{self._control_group}"), *CGROUP_ROOT.glob(f"*/{self._control_group}")]
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                # The folder is busy while a killed process still exists, and missing if another run removed it first.
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not any(top.exists() for top in tops)

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_SHOWN:]


def _stat_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _start_of(stat: str) -> str | None:
    """Return when the process started, in the kernel's ticks, or None if it does not run.

    The start distinguishes processes, because the kernel reuses process IDs.
    """
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None
