"""The state of a cluster when a scenario fails, for readers of CI logs, who cannot access the cluster any more."""

from e2e.cluster.control_plane import KubectlError
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.shop import OPERATOR_PODS
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import CLUSTER

_LINES = 60
_PAGES = (
    ("get", "nodes", "--output=wide"),
    ("get", "pods", "--all-namespaces", "--output=wide"),
    ("get", "bc,cq,bl,tp,br", "--all-namespaces", "--output=wide"),
    ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
    ("logs", "-n", OPERATOR_NAMESPACE, "-l", OPERATOR_PODS, f"--tail={_LINES}"),
    ("logs", "-l", f"sluicegate.dev/cluster={CLUSTER}", f"--tail={_LINES // 3}", "--prefix"),
)


def diagnosis(kube: Kube) -> str:
    """Return the last lines of each page. An API server that does not answer is reported too."""
    told = []
    for page in _PAGES:
        try:
            said = kube.kubectl(*page, timeout_s=30)
        except KubectlError as refusal:
            said = str(refusal)
        told.append("\n".join([f"$ kubectl {' '.join(page)}", *said.splitlines()[-_LINES:]]))
    return "\n\n".join(told)
