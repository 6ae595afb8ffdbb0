"""The operator in a separate process, as users run it, for tests that start, kill and restart it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Self

from e2e.cluster.control_plane import ControlPlane
from tests.support.processes.ports import free_port
from tests.support.processes.process_kubelet.api import Json

REPOSITORY = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "sluicegate-system"
"""The namespace of deploy/, which has the Lease."""
STOP_TIMEOUT_S = 60.0
RESYNC_S = 3
"""Interval of drift detection, in seconds; the default of 60 s is too slow for tests."""


def secrets_grant(role: str) -> tuple[Json, Json]:
    """Return the ClusterRole of this name and its binding, which grant what `rbac.secrets` of the chart grants."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch"]}
    account = {"kind": "ServiceAccount", "name": "sluicegate-operator", "namespace": OPERATOR_NAMESPACE}
    api = "rbac.authorization.k8s.io"
    return (
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [rule]},
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [account],
        },
    )


def operator_account(plane: ControlPlane, folder: Path) -> Path:
    """Create the operator's namespace, and return a kubeconfig with exactly the rights that deploy/ gives it."""
    plane.kubectl("apply", "-f", str(REPOSITORY / "deploy" / "rbac.yaml"))
    arguments = ("create", "token", "sluicegate-operator", "-n", OPERATOR_NAMESPACE, "--duration=4h")
    document = json.loads(plane.kubeconfig.read_text())
    [user] = document["users"]
    user["user"] = {"token": plane.kubectl(*arguments).strip()}
    path = folder / "operator-kubeconfig"
    path.write_text(json.dumps(document))
    return path


class OperatorProcess:
    """The operator's process.

    `resync_s` None leaves the interval to each cluster's spec, as users run it. `first_modules`: a folder of Python
    modules that override the installed ones. `settings`: more environment variables.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        identity: str,
        resync_s: int | None = RESYNC_S,
        first_modules: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.log = log
        self._resync_s = resync_s
        self._settings = settings
        self._modules = [*filter(None, [first_modules]), REPOSITORY, REPOSITORY / "operator"]
        self.identity = identity
        self.metrics_port = free_port()
        self._kubeconfig = kubeconfig
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the operator was not started")
        return self._process.pid

    def start(self) -> None:
        settings = {
            "KUBECONFIG": str(self._kubeconfig),
            "PYTHONPATH": os.pathsep.join(map(str, self._modules)),
            "PYTHONUNBUFFERED": "1",
            "SLUICEGATE_RESYNC_SECONDS": "" if self._resync_s is None else str(self._resync_s),
            "SLUICEGATE_IDENTITY": self.identity,
            "SLUICEGATE_METRICS_LISTENER": f"127.0.0.1:{self.metrics_port}",
            "POD_NAMESPACE": OPERATOR_NAMESPACE,
        }
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sluicegate_operator"],
                env={**os.environ, **settings, **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def must_run(self) -> None:
        if not self.running:
            raise RuntimeError(f"the operator {self.identity} is not running; its last words:\n{self.output()[-4000:]}")

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self) -> int:
        """Send SIGTERM as Kubernetes does, and return the exit code."""
        if self._process is None:
            raise RuntimeError("the operator was not started")
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_TIMEOUT_S)
        self._process = None
        return code

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the operator inside the block, so that a test can see something that it would correct at once."""
        if self._process is None:
            raise RuntimeError("the operator was not started")
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
