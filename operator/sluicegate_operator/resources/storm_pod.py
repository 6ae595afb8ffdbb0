"""A pod that runs `sluicegate storm` once, from an address of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.resources.labels import MANAGED_BY_LABEL
from sluicegate_operator.resources.statefulset import USER_ID

NAME = "sluicegate-storm"
STORM_LABELS = {"app.kubernetes.io/name": NAME, MANAGED_BY_LABEL: "sluicegate"}
RUN_LABEL = "sluicegate.dev/storm"
"""Which call of the command has made a pod."""


@dataclass(frozen=True, slots=True)
class StormRun:
    """`arguments` are those of `sluicegate storm`; `deadline_s`: after so long Kubernetes ends the pod. The image and
    `pull_secrets` are those of a broker's pod, which nodes have or may pull."""

    namespace: str
    run: str
    image: str
    arguments: Sequence[str]
    deadline_s: int
    pull_secrets: Sequence[str] = ()


def storm_pod(storm: StormRun) -> dict[str, Any]:
    """Fits the pod security standard `restricted`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{NAME}-",
            "namespace": storm.namespace,
            "labels": {**STORM_LABELS, RUN_LABEL: storm.run},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": storm.deadline_s,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": name} for name in storm.pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "storm",
                    "image": storm.image,
                    "command": ["sluicegate", "storm", *storm.arguments],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                        "limits": {"cpu": "1", "memory": "256Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                }
            ],
        },
    }
