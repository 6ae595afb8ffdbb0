"""A separate Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager on loopback, without root.

It has no node and no scheduler (tests/support/process_kubelet plays both). The API server signs its own certificate,
which the kubeconfig trusts; clients authenticate with a token, and RBAC authorizes them. Everything is in one temporary
folder, logs included, and ends with `stop()`.
"""

import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from e2e.cluster.binaries import binaries_folder
from e2e.cluster.process import Program
from e2e.cluster.waiting import wait_for
from tests.support.processes.ports import free_port

START_TIMEOUT_S = 120.0
"""An idle machine needs three seconds; a loaded one must not fail."""

KUBECTL_TIMEOUT_S = 120.0


class KubectlError(AssertionError):
    """kubectl failed or timed out; `stderr` is its standard error."""

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")
        self.stderr = stderr


def warnings_in(output: str) -> list[str]:
    """Return the API server's warnings, which kubectl prints to its standard error."""
    return [line.removeprefix("Warning: ") for line in output.splitlines() if line.startswith("Warning: ")]


AUDIT_MIB_MAX = 100
"""A whole run writes about 20 MiB."""


class ControlPlane:
    def __init__(self, folder: Path | None = None, audited: str = "") -> None:
        """`audited`: the group of users whose requests are recorded in `audit_log`."""
        self._audited = audited
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="sluicegate-control-plane-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._binaries = binaries_folder()
        self._token = secrets.token_hex(16)
        self._api_port = free_port()
        self._etcd: Program | None = None
        self._api_server: Program | None = None
        self._controller_manager: Program | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._api_port}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """File of answered requests of the audited group, one JSON object a line."""
        return self.folder / "audit.log"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def token(self) -> str:
        return self._token

    def start(self) -> None:
        (self.folder / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        self._start_etcd()
        self._start_api_server()
        self._write_kubeconfig()
        self._start_controller_manager()
        wait_for("the default service account", self._has_default_service_account, timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        self._end_controller_manager()
        if self._api_server is not None:
            self._api_server.stop()
        if self._etcd is not None:
            # etcd's data are removed with the folder, so an orderly shutdown is unnecessary.
            self._etcd.stop(by=signal.SIGKILL)
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def pause_api_server(self) -> None:
        """Close the API server's port until `resume_api_server`; stored objects stay in etcd.

        The controller manager ends too. Its informers would wait for up to a minute before they retry, and the next
        test would have no pods until then.
        """
        if self._api_server is not None:
            self._end_controller_manager(by=signal.SIGKILL)
            self._api_server.stop(by=signal.SIGKILL)
            self._api_server = None

    def resume_api_server(self) -> None:
        if self._api_server is None:
            self._start_api_server()
            self._start_controller_manager()

    def forget_the_past(self) -> None:
        """Compact etcd, so that it has only the current objects.

        Call this while the API server is paused, because it would answer from its own memory. The next API server
        answers 410 to watches of earlier versions.
        """
        found = self._ask_etcd("kv/range", {"key": "AA=="})
        self._ask_etcd("kv/compaction", {"revision": found["header"]["revision"], "physical": True})

    def keep_storage(self, folder: Path) -> None:
        """Copy etcd's data for `restore_storage`. Both restart etcd and the API server."""
        self._while_stopped(lambda: shutil.copytree(self.folder / "etcd", folder))

    def restore_storage(self, folder: Path) -> None:
        """Restore the copy, as after a disaster: the API server continues from an older resourceVersion."""

        def restore() -> None:
            shutil.rmtree(self.folder / "etcd")
            shutil.copytree(folder, self.folder / "etcd")

        self._while_stopped(restore)

    def _while_stopped(self, work: Callable[[], object]) -> None:
        self.pause_api_server()
        if self._etcd is not None:
            self._etcd.stop()
        work()
        self._start_etcd()
        self.resume_api_server()

    @contextmanager
    def frozen_api_server(self) -> Iterator[None]:
        """Freeze the API server inside the block: it keeps its connections, and does not answer."""
        if self._api_server is None:
            raise RuntimeError("the API server is paused")
        os.kill(self._api_server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._api_server.pid, signal.SIGCONT)

    def _ask_etcd(self, what: str, document: dict[str, Any]) -> Any:
        request = urllib.request.Request(f"{self._etcd_url}/v3/{what}", json.dumps(document).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kubectl(self, *arguments: str, input: str | None = None, timeout_s: float = KUBECTL_TIMEOUT_S) -> str:
        """Run kubectl and return its standard output. Raises KubectlError with the message if kubectl fails."""
        return self._run_kubectl(arguments, input, timeout_s).stdout

    def kubectl_warnings(self, *arguments: str, input: str | None = None) -> list[str]:
        """Return the warnings that kubectl prints. Raises KubectlError."""
        return warnings_in(self._run_kubectl(arguments, input, KUBECTL_TIMEOUT_S).stderr)

    def _run_kubectl(
        self, arguments: tuple[str, ...], input: str | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run(
                [str(self._binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments],
                input=input,
                env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as silence:
            raise KubectlError(arguments, f"no answer within {timeout_s:g} s") from silence
        if done.returncode != 0:
            raise KubectlError(arguments, done.stderr)
        return done

    def get(self, *arguments: str) -> Any:
        """Return the decoded output of `kubectl get ... -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._etcd_url = client
        self._etcd = self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        )
        self._await_ready(self._etcd, f"{client}/health")

    def _start_api_server(self) -> None:
        # The key that signs the server's certificate also signs service account tokens. The API server writes it before
        # it reads it for tokens, so that no separate key generator is necessary.
        key = self.certificate.with_suffix(".key")
        self._api_server = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._api_port}",
            f"--cert-dir={self.certificate.parent}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
            # Some clusters check permissions to set owner references; the operator's rights must suffice there, too.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            *(self._audit_arguments() if self._audited else ()),
        )
        self._await_ready(self._api_server, f"{self.url}/readyz")

    def _audit_arguments(self) -> tuple[str, ...]:
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{"level": "Metadata", "userGroups": [self._audited]}, {"level": "None"}],
        }
        path = self.folder / "audit-policy.json"
        path.write_text(json.dumps(policy))
        return (
            f"--audit-policy-file={path}",
            f"--audit-log-path={self.audit_log}",
            f"--audit-log-maxsize={AUDIT_MIB_MAX}",
        )

    def _start_controller_manager(self) -> None:
        self._controller_manager = self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.certificate.with_suffix('.key')}",
            f"--root-ca-file={self.certificate}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        )

    def _end_controller_manager(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._controller_manager is not None:
            self._controller_manager.stop(by=by)
            self._controller_manager = None

    def _run(self, name: str, *arguments: str) -> Program:
        return Program([str(self._binaries / name), *arguments], self.folder / f"{name}.log")

    def _await_ready(self, program: Program, url: str) -> None:
        def answers() -> bool:
            program.must_run()
            headers = {"Authorization": f"Bearer {self._token}"}
            try:
                tls = ssl.create_default_context(cafile=self.certificate) if url.startswith("https") else None
                with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5, context=tls):
                    return True
            except (OSError, urllib.error.URLError):
                return False

        wait_for(f"{program.name} ready at {url} (log: {program.log})", answers, timeout_s=START_TIMEOUT_S)

    def _has_default_service_account(self) -> bool:
        if self._controller_manager is not None:
            self._controller_manager.must_run()
        return bool(self.kubectl("get", "serviceaccount", "default", "--ignore-not-found"))

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sluicegate-e2e", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "default", "context": {"cluster": "sluicegate-e2e", "user": "admin"}}],
            "current-context": "default",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(document, indent=1))
