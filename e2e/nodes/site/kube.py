"""The API server of a cluster with nodes, accessed with kubectl."""

import json
import subprocess
import threading
import time
from typing import Any

from e2e.cluster.control_plane import KUBECTL_TIMEOUT_S, KubectlError, warnings_in

LOOKS_APART_S = 0.3
"""Least time between polls: one kubectl takes a tenth of a second of the CPU that the nodes also use."""


class Kube:
    """kubectl of PATH with the cluster of KUBECONFIG, in the namespace `default` unless arguments name another."""

    def __init__(self) -> None:
        self._next_look_s = 0.0
        self._pause = threading.Event()

    def kubectl(self, *arguments: str, input: str | None = None, timeout_s: float = KUBECTL_TIMEOUT_S) -> str:
        """Run kubectl and return its standard output. Raises KubectlError with the message if kubectl fails."""
        return self._run(arguments, input, timeout_s).stdout

    def kubectl_warnings(self, *arguments: str, input: str | None = None) -> list[str]:
        """Return the warnings that kubectl prints. Raises KubectlError."""
        return warnings_in(self._run(arguments, input, KUBECTL_TIMEOUT_S).stderr)

    def _run(self, arguments: tuple[str, ...], input: str | None, timeout_s: float) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run(
                ["kubectl", *arguments], input=input, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as silence:
            raise KubectlError(arguments, f"no answer within {timeout_s:g} s") from silence
        if done.returncode != 0:
            raise KubectlError(arguments, done.stderr)
        return done

    def get(self, *arguments: str) -> Any:
        """Return the decoded output of `kubectl get ... -o json`."""
        self._pause.wait(max(0.0, self._next_look_s - time.monotonic()))
        self._next_look_s = time.monotonic() + LOOKS_APART_S
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))
