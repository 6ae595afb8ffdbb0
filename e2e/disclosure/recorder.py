"""Records what the API server of a run shows: each version of its objects, and the logs of its pods.

Secrets are not recorded: what they hold is searched for in all else. `kubectl proxy` authenticates, so that each watch
is one thread and one connection.
"""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from e2e.disclosure.generated import of_secret
from e2e.disclosure.outputs import Outputs
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.schema.metadata import GROUP, VERSION

SECRETS = "api/v1/secrets"
PODS = "api/v1/pods"
PATHS = (
    *(f"api/v1/{plural}" for plural in ("configmaps", "events", "pods", "secrets", "services")),
    "apis/apps/v1/deployments",
    "apis/apps/v1/statefulsets",
    "apis/batch/v1/jobs",
    *(f"apis/{GROUP}/{VERSION}/{kind.plural}" for kind in KINDS.values()),
)
SYSTEM = ("kube-node-lease", "kube-public", "kube-system", "local-path-storage")
"""Namespaces of Kubernetes' own pods, whose logs are not of this project."""
WATCH_S = 240
"""After this time the API server ends a watch."""
QUIET_MAX_S = 7200.0
"""Longest silence of a log or a watch. The end of the proxy ends all of them."""
AGAIN_S = 1.0
PROXY_TIMEOUT_S = 10.0
_SERVES = "Starting to serve on "


class Recorder:
    """Watches everything while its block runs. `kubectl`: the command with its kubeconfig. `logs`: pods have logs."""

    def __init__(self, kubectl: list[str], outputs: Outputs, *, logs: bool) -> None:
        self._outputs = outputs
        self._kubectl = kubectl
        self._logs = logs
        self._ends = threading.Event()
        self._followed: set[str] = set()
        self._running: dict[str, dict[str, str]] = {}
        """Names of running containers by their ids."""
        self._threads: list[threading.Thread] = []
        self._url = ""

    def __enter__(self) -> Self:
        self._proxy = subprocess.Popen(
            [*self._kubectl, "proxy", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._proxy.stdout is not None
        line = self._proxy.stdout.readline()
        if not line.startswith(_SERVES):
            self._proxy.kill()
            raise RuntimeError(f"kubectl proxy does not serve: {line.strip() or self._proxy.wait()}")
        self._url = f"http://{line.removeprefix(_SERVES).strip()}"
        for path in PATHS:
            self._start(path, partial(self._watch, path))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for container in list(self._running.values()):
            # A stream may lag behind, or may have ended with an API server.
            self._read_log(container, follow=False)
        self._proxy.terminate()
        self._proxy.wait(PROXY_TIMEOUT_S)
        if self._proxy.stdout is not None:
            self._proxy.stdout.close()
        for thread in list(self._threads):
            thread.join(PROXY_TIMEOUT_S)

    def _start(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=f"recorder-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self, path: str) -> None:
        """Record a kind until the end. Each new watch begins with all present objects."""
        while not self._ends.is_set():
            try:
                with self._stream(path, watch="1", timeoutSeconds=str(WATCH_S)) as lines:
                    for line in lines:
                        self._take(path, line)
            except (OSError, HTTPException, ValueError):
                # The kind does not exist yet, or the API server is gone for a while.
                self._ends.wait(AGAIN_S)

    def _take(self, path: str, line: bytes) -> None:
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise ValueError("the watch has ended")
        if path == SECRETS:
            self._outputs.hide(of_secret(event["object"]))
            return
        self._outputs.add(f"{path}.jsonl", line.decode(errors="replace").rstrip())
        if path == PODS and self._logs:
            self._follow_containers(event)

    def _follow_containers(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        metadata, status = pod["metadata"], pod.get("status", {})
        if metadata["namespace"] in SYSTEM:
            return
        for one in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]:
            identity = one.get("containerID", "")
            container = {"namespace": metadata["namespace"], "pod": metadata["name"], "container": one["name"]}
            if event["type"] == "DELETED" or "running" not in one.get("state", {}):
                self._running.pop(identity, None)
            elif identity:
                self._running[identity] = container
            if identity and identity not in self._followed and event["type"] != "DELETED":
                self._followed.add(identity)
                self._start(f"log-{metadata['name']}", partial(self._read_log, container))

    def _read_log(self, container: dict[str, str], *, follow: bool = True) -> None:
        """Record a container's log until it ends, or until now."""
        path = f"api/v1/namespaces/{container['namespace']}/pods/{container['pod']}/log"
        name = f"log_{'_'.join(container.values())}"
        try:
            with self._stream(path, container=container["container"], follow=str(follow).lower()) as lines:
                for line in lines:
                    self._outputs.add(name, line.decode(errors="replace").rstrip())
        except (OSError, HTTPException, ValueError) as error:
            self._outputs.add(name, f"the recorder lost this log: {error!r}")

    @contextmanager
    def _stream(self, path: str, **query: str) -> Iterator[Iterator[bytes]]:
        """Yield the lines of an answer. Raises OSError, HTTPException."""
        with urllib.request.urlopen(f"{self._url}/{path}?{urlencode(query)}", timeout=QUIET_MAX_S) as answer:
            yield iter(answer)


def logs_in(folder: Path) -> list[Path]:
    """Return the log files of operators and of pods that are processes, below a folder."""
    return sorted(path for path in folder.rglob("*.log") if path.is_file())
