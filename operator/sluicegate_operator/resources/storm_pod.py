"""A pod that runs `sluicegate storm` once, from its own address."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.resources.labels import MANAGED_BY_LABEL
from sluicegate_operator.resources.nodes.statefulset import USER_ID

NAME = "sluicegate-storm"
STORM_LABELS = {"app.kubernetes.io/name": NAME, MANAGED_BY_LABEL: "sluicegate"}
RUN_LABEL = "sluicegate.dev/storm"
"""Label with the id of the command's call that created the pod."""


@dataclass(frozen=True, slots=True)
class StormRun:
    """One call of `sluicegate storm` in a pod.

    `arguments` are those of the command; Kubernetes ends the pod after `deadline_s` seconds. The image and
    `pull_secrets` are those of a broker's pod, so nodes have the image or may pull it.
    """

    namespace: str
    run: str
    image: str
    arguments: Sequence[str]
    deadline_s: int
    pull_secrets: Sequence[str] = ()


def storm_pod(storm: StormRun) -> dict[str, Any]:
    """Return the pod of a storm, which complies with the pod security standard `restricted`."""
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
