"""Storms from pods: each pod has a separate address, which the brokers see."""

import json
from dataclasses import dataclass

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.kube import Kube
from e2e.world.shop import Json
from sluicegate_operator.resources.nodes.statefulset import DEFAULT_IMAGE, USER_ID

FINISHED_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class StormPod:
    """A pod that runs `sluicegate storm` once against host:port."""

    kube: Kube
    name: str
    target: str
    rate: float
    seconds: float

    def begin(self) -> None:
        command = ["sluicegate", "storm", "--yes-i-own-this-target", "--to", self.target, "--output", "json"]
        command += ["--rate", f"{self.rate:g}", "--seconds", f"{self.seconds:g}", "--timeout", f"{self.seconds:g}"]
        restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER_ID,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "storm",
                        "image": DEFAULT_IMAGE,
                        "command": command,
                        "securityContext": restricted | {"readOnlyRootFilesystem": True},
                    }
                ],
            },
        }
        self.kube.kubectl("apply", "-f", "-", input=json.dumps(pod))

    def address(self) -> str:
        def look() -> str:
            return str(self._status().get("podIP", ""))

        return wait_for(f"pod {self.name} has an address", look)

    def report(self) -> Json:
        """Wait for the end of the storm, return its report, and delete the pod."""

        def look() -> bool:
            phase = self._status().get("phase")
            assert phase != "Failed", self.kube.kubectl("logs", self.name)
            return phase == "Succeeded"

        wait_for(f"pod {self.name} has finished", look, timeout_s=FINISHED_TIMEOUT_S, interval_s=0.2)
        said = self.kube.kubectl("logs", self.name)
        self.kube.kubectl("delete", "pod", self.name, "--wait=false")
        report: Json = json.loads(said[said.index("{") :])
        return report

    def _status(self) -> Json:
        found: Json = self.kube.get("pod", self.name)["status"]
        return found
