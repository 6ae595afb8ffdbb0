"""Runs the operator repeatedly, each time in a separate process that starts in a moment.

`python -m e2e.world.forked_operator` imports the operator once and forks for each start: the child runs `main` of
`python -m sluicegate_operator`, with all imports already done. It reads orders, one a line, and answers each with a
line: `start` and JSON of environment, arguments and log; `wait` and a process id.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from e2e.world.operator_process import OPERATOR_NAMESPACE, REPOSITORY, RESYNC_S
from tests.support.processes.ports import free_port

LEASE_S = 15


class Forks:
    """The process that forks operators. Use as `with Forks() as forks`."""

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "operator")])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "e2e.world.forked_operator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None, "it was made with pipes"
        # The process ends when its orders end.
        with self._process:
            self._process.stdin.close()

    def start(self, environment: dict[str, str], arguments: list[str], log: Path) -> int:
        return int(self._ask(f"start {json.dumps([environment, arguments, str(log)])}"))

    def wait(self, pid: int) -> int:
        """Wait for the process and return its exit code; negative for a signal."""
        return int(self._ask(f"wait {pid}"))

    def _ask(self, order: str) -> str:
        assert self._process.stdin is not None, "it was made with pipes"
        assert self._process.stdout is not None, "it was made with pipes"
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that starts operators has ended")
        return answer


class ForkedOperator:
    """An operator in a forked process. `shift_s`: how far its wall clock is ahead, in seconds."""

    def __init__(
        self,
        forks: Forks,
        kubeconfig: Path,
        log: Path,
        identity: str,
        *,
        arguments: tuple[str, ...] = (),
        shift_s: float = 0.0,
        resync_s: float = RESYNC_S,
        lease_s: int = LEASE_S,
    ) -> None:
        self.log = log
        self.identity = identity
        self.metrics_port = free_port()
        self._forks = forks
        self._arguments = list(arguments)
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "SLUICEGATE_RESYNC_SECONDS": str(resync_s),
            "SLUICEGATE_LEASE_SECONDS": str(lease_s),
            "SLUICEGATE_IDENTITY": identity,
            "SLUICEGATE_METRICS_LISTENER": f"127.0.0.1:{self.metrics_port}",
            "POD_NAMESPACE": OPERATOR_NAMESPACE,
            SHIFT: str(shift_s),
        }
        self.pid = 0
        """Process ID, or 0 if the operator does not run."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.pid = self._forks.start(self._environment, self._arguments, self.log)

    @property
    def running(self) -> bool:
        """Whether the operator was started. Also true for a killed one until `kill` has waited for it."""
        return self.pid != 0

    def must_run(self) -> None:
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] if self.pid else "gone"
        if state in ("Z", "gone"):
            raise RuntimeError(f"the operator {self.identity} has ended; its last words:\n{self.output()[-4000:]}")

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def die(self) -> None:
        """Kill the operator without waiting; `kill` waits. For threads that must not block."""
        if not self.pid:
            raise RuntimeError(f"the operator {self.identity} does not run")
        os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        if self.pid:
            self.die()
            self._forks.wait(self.pid)
            self.pid = 0


SHIFT = "SLUICEGATE_TEST_CLOCK_AHEAD_SECONDS"


def main() -> int:
    from sluicegate_operator import __main__ as operator  # noqa: PLC0415 - only here is it imported before a fork

    for line in sys.stdin:
        order, _, rest = line.partition(" ")
        if order == "wait":
            _, status = os.waitpid(int(rest), 0)
            _say(os.waitstatus_to_exitcode(status))
            continue
        environment, arguments, log = json.loads(rest)
        pid = os.fork()
        if pid == 0:
            _become(environment, Path(log))
            os._exit(operator.main(arguments))
        _say(pid)
    return 0


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _become(environment: dict[str, str], log: Path) -> None:
    os.setsid()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    shift_s = float(environment.get(SHIFT) or 0)
    if shift_s:
        from e2e.world.shifted_clock import shift  # noqa: PLC0415 - only for who asks for it

        shift(shift_s)


if __name__ == "__main__":
    sys.exit(main())
