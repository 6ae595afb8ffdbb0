"""A whole installation in memory: CRDs, an operator, and the cluster `shop` with two brokers."""

from datetime import UTC, datetime
from typing import Any

from tests.support.fakes.kube.read_kube import ReadKube
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.unit.sluicegate_operator.cli.asking.test_quota_rows import LIMITS
from tests.unit.sluicegate_operator.cli.doctor.checks.test_crds import PLURALS, stored
from tests.unit.sluicegate_operator.cli.doctor.checks.test_operator_runs import deployment
from tests.unit.sluicegate_operator.cli.fleets.test_kubernetes_view import BROKERS, a_pod, said

Json = dict[str, Any]
NAMESPACE = "kafka"
RELEASE = "0.2.0"
OVERVIEW: Json = BROKERS
IN_SYNC = OVERVIEW | {"brokers": [one | {"outOfSync": 0} for one in OVERVIEW["brokers"]]}
SELECTED = {"app.kubernetes.io/name": "sluicegate-operator"}


def placed(document: Json, namespace: str | None = NAMESPACE, **metadata: Any) -> Json:
    return document | {"metadata": document["metadata"] | {"namespace": namespace} | metadata}


def a_claim(name: str, phase: str = "Bound", controller: str | None = None) -> Json:
    labels = {"sluicegate.dev/cluster": "shop"}
    owner = {"apiVersion": "example.org/v1", "kind": controller, "name": "one", "uid": "u1", "controller": True}
    owners = [] if controller is None else [owner]
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owners},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": phase},
    }


def a_registration(broker: int, release: str = f"{RELEASE}-sluicegate") -> Json:
    return {
        "kind": "BrokerRegistration",
        "metadata": {"name": f"shop-{broker}", "namespace": NAMESPACE},
        "spec": {"clusterRef": {"name": "shop"}, "brokerId": broker},
        "status": {"version": release},
    }


def a_lease() -> Json:
    renewed = datetime.now(UTC).isoformat()
    return {
        "kind": "Lease",
        "metadata": {"name": "sluicegate-operator", "namespace": "sluicegate-system"},
        "spec": {"holderIdentity": "operator-1", "leaseDurationSeconds": 15, "renewTime": renewed},
    }


def a_storage_class(*, expands: bool = True) -> Json:
    return {"kind": "StorageClass", "metadata": {"name": "fast", "namespace": None}, "allowVolumeExpansion": expands}


def a_node(name: str, role: str) -> Json:
    pod = a_pod(name, role)
    return placed(pod | {"kind": "Pod", "spec": {"nodeName": "machine-1", "containers": []}})


def summary(available: int = 50, capacity: int = 100) -> Json:
    claims = ("data-shop-brokers-0", "data-shop-brokers-1")
    sizes = {"availableBytes": available << 30, "capacityBytes": capacity << 30}
    return {"pods": [{"volume": [{"pvcRef": {"name": name, "namespace": NAMESPACE}, **sizes}]} for name in claims]}


def installed(bootstrap: str = "shop-external.kafka.svc:9094") -> ReadKube:
    operators = placed(deployment(release=RELEASE), "sluicegate-system") | {"kind": "Deployment"}
    operators["metadata"]["labels"] |= SELECTED
    kube = ReadKube(
        *(placed(crd, None) for crd in stored().values()),
        operators,
        a_lease(),
        a_storage_class(),
        {"kind": "Namespace", "metadata": {"name": NAMESPACE, "namespace": None, "labels": {}}},
        *(a_node(f"shop-brokers-{broker}", "broker") for broker in range(2)),
        a_node("shop-controllers-0", "controller"),
        placed(said(cluster(), "True", "2/2 brokers ready")),
        placed(said(listener(), "True", "open on 2/2 brokers", bootstrap=bootstrap)),
        placed(said(quota({"listener": "EXTERNAL"}), "True", "enforced by all 2 brokers")),
        *(a_claim(f"data-shop-brokers-{broker}") for broker in range(2)),
        *(a_registration(broker) for broker in range(2)),
    )
    kube.documents = {
        "/version": {"gitVersion": "v1.34.4"},
        "/apis/sluicegate.dev/v1alpha1": {"resources": [{"name": plural} for plural in PLURALS]},
        "/api/v1/nodes/machine-1/proxy/stats/summary": summary(),
        f"/api/v1/namespaces/{NAMESPACE}/pods/shop-controllers-0:9404/proxy/brokers": IN_SYNC,
    }
    for broker in range(2):
        at = f"/api/v1/namespaces/{NAMESPACE}/pods/shop-brokers-{broker}:9404/proxy"
        kube.documents[f"{at}/connection-limits?after="] = LIMITS | {"ips": {}, "next": None}
        kube.documents[f"{at}/connection-quotas?after="] = {"groups": {}, "next": None}
    return kube
