"""StatefulSets of brokers and of controllers.

The pod template depends on static configuration only: no limit of a ConnectionQuota is in it, so none restarts a pod. A
changed template alone restarts none either: pods are replaced when the operator deletes them, as planned by
planning.rolls.roll. Mount paths are in arguments, never inside a mounted file. `NodeSet` contains the finished
configuration of the process; `planning.layout.cluster_layout` decides layouts and ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.models.broker_cluster import CONTROLLER_STORAGE_SIZE, BrokerCluster, Storage
from sluicegate_operator.api.models.parts.pod_settings import PodSettings
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.resources.config_map import FILE_NAME, config_map_name
from sluicegate_operator.resources.container_resources import BROKER as BROKER_RESOURCES
from sluicegate_operator.resources.container_resources import CONTROLLER as CONTROLLER_RESOURCES
from sluicegate_operator.resources.container_resources import container_resources
from sluicegate_operator.resources.labels import (
    POD_INDEX_LABEL,
    READINESS_GATE,
    REVISION,
    journal_account_name,
    labels,
    node_set_name,
    selector,
    service_account_name,
)
from sluicegate_operator.resources.nodes.lander import LANDING_S, lander, lander_volumes
from sluicegate_operator.resources.nodes.placement import placement
from sluicegate_operator.resources.observer_code import observer_mounts, observer_python_path, observer_volumes
from sluicegate_operator.resources.owner import child_metadata, why_not_ours
from sluicegate_operator.resources.rack import rack_mount, rack_volume
from sluicegate_operator.resources.secrets.listener_stores import ListenerStore, store_mounts, store_volumes

DEFAULT_IMAGE = "sluicegate:0.1.0"
CLAIMS_STAY = {"whenDeleted": "Retain", "whenScaled": "Retain"}
CLAIM = "data"
"""Prefix of the names of nodes' claims. The StatefulSet's name and the ordinal follow."""
DATA_PATH = "/var/lib/sluicegate"
CONFIG_PATH = "/etc/sluicegate"
LOG_DIR = f"{DATA_PATH}/data"
"""The broker's data folder, below the volume's root, where file systems keep lost+found."""
USER_ID = 10001
SHUTDOWN_TIMEOUT_S = 40
"""Maximum seconds that a broker may take to move its leaders before it stops anyway."""
HOOK_DEADLINE_S = SHUTDOWN_TIMEOUT_S + 2
"""Maximum seconds that the preStop hook waits. The broker answers at its own deadline, a little earlier."""
GRACE_PERIOD_S = 60
"""Seconds for the hook and then a graceful stop, which closes logs with an fsync each."""
RECOVERY_S_MAX = 3600
"""Maximum seconds that a node may recover its logs before the kubelet restarts the node."""
CONTROLLER_STORAGE = Storage(size=CONTROLLER_STORAGE_SIZE)


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The settings of the StatefulSet that runs the nodes of one role.

    `properties` is the text of the shared file, `overrides` may contain `$(POD_IP)` and the like; `topology_key` is the
    label of their racks, if they have any.
    """

    role: str
    replicas: int
    storage: Storage
    properties: str
    overrides: Mapping[str, str]
    ports: Mapping[str, int]
    http_port: int
    resources: Resources | None = None
    pod: PodSettings = field(default_factory=PodSettings)
    shares_journal: bool = False
    topology_key: str | None = None
    stores: tuple[ListenerStore, ...] = ()

    @property
    def is_broker(self) -> bool:
        return self.role == BROKER


BROKER = "broker"


def node_set_metadata(cluster: BrokerCluster, role: str) -> dict[str, Any]:
    return child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role))


def is_node_set_of(cluster: BrokerCluster, role: str, found: Mapping[str, Any]) -> bool:
    """Return whether `found`, a StatefulSet with the right name, belongs to the cluster."""
    return not why_not_ours(found, {"metadata": node_set_metadata(cluster, role)})


def statefulset(cluster: BrokerCluster, nodes: NodeSet, revision: str) -> dict[str, Any]:
    """Return the StatefulSet of a role's nodes.

    `revision` becomes an annotation of the pods, by which changes are noticed.
    """
    name = node_set_name(cluster.name, nodes.role)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": node_set_metadata(cluster, nodes.role),
        "spec": {
            "replicas": nodes.replicas,
            "serviceName": name,
            # Brokers need no order, and a broker that is down must not keep others from starting.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            # The operator decides which claims are deleted with the cluster. A StatefulSet would delete each claim that
            # it mounts.
            "persistentVolumeClaimRetentionPolicy": dict(CLAIMS_STAY),
            "selector": {"matchLabels": selector(cluster.name, nodes.role)},
            "template": {
                "metadata": {
                    "labels": {**(nodes.pod.labels or {}), **labels(cluster.name, nodes.role)},
                    "annotations": {**(nodes.pod.annotations or {}), REVISION: revision},
                },
                "spec": pod_spec(cluster, nodes),
            },
            "volumeClaimTemplates": [claim_template(nodes.storage)],
        },
    }


def image_of(cluster: BrokerCluster) -> str:
    return cluster.spec.image or DEFAULT_IMAGE


def pod_spec(cluster: BrokerCluster, nodes: NodeSet) -> dict[str, Any]:
    account = journal_account_name if nodes.shares_journal else service_account_name
    config_map = config_map_name(cluster.name, nodes.role, nodes.properties)
    spec: dict[str, Any] = {
        "serviceAccountName": account(cluster.name),
        "automountServiceAccountToken": nodes.shares_journal,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_PERIOD_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(cluster, nodes)],
        "volumes": [{"name": "config", "configMap": {"name": config_map}}],
    }
    if nodes.is_broker:
        spec["volumes"] += observer_volumes(cluster)
    spec["volumes"] += store_volumes(nodes.stores)
    if nodes.is_broker:
        if landing := cluster.spec.landing:
            spec["initContainers"] = [lander(cluster, landing, spec["containers"][0], LOG_DIR)]
            spec["volumes"] += lander_volumes(landing)
            spec["terminationGracePeriodSeconds"] += LANDING_S
        spec["readinessGates"] = [{"conditionType": READINESS_GATE}]
    if nodes.topology_key is not None:
        spec["volumes"].append(rack_volume())
    if cluster.spec.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in cluster.spec.image_pull_secrets]
    return spec | placement(nodes.pod, selector(cluster.name, nodes.role), nodes.topology_key)


def _container(cluster: BrokerCluster, nodes: NodeSet) -> dict[str, Any]:
    arguments = ["--config", f"{CONFIG_PATH}/{FILE_NAME}"]
    for key, value in nodes.overrides.items():
        arguments += ["--override", f"{key}={value}"]
    container: dict[str, Any] = {
        "name": nodes.role,
        "image": image_of(cluster),
        "command": ["python", "-m", "broker_runtime"],
        "args": arguments,
        "env": [
            _field("POD_IP", "status.podIP"),
            _field("POD_NAME", "metadata.name"),
            _field("POD_INDEX", f"metadata.labels['{POD_INDEX_LABEL}']"),
            # The root file system is read-only.
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in {**nodes.ports, "http": nodes.http_port}.items()
        ],
        **_probes(),
        "resources": container_resources(
            nodes.resources, BROKER_RESOURCES if nodes.is_broker else CONTROLLER_RESOURCES
        ),
        # The last log lines of a node reach its pod's status, and from there the status of its cluster.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": CLAIM, "mountPath": DATA_PATH},
            {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
            *([rack_mount()] if nodes.topology_key is not None else []),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if nodes.is_broker:
        if path := observer_python_path(cluster):
            container["env"].append({"name": "PYTHONPATH", "value": path})
        container["volumeMounts"] += observer_mounts(cluster)
        container["lifecycle"] = {"preStop": {"exec": {"command": _controlled_shutdown(nodes)}}}
    container["volumeMounts"] += store_mounts(nodes.stores)
    return container


def _controlled_shutdown(nodes: NodeSet) -> list[str]:
    """Return the hook's command: leaders move away before the signal that ends the process."""
    times = ["--http-port", str(nodes.http_port), "--deadline-s", str(HOOK_DEADLINE_S)]
    return ["python", "-m", "broker_runtime.controlled_shutdown", *times]


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probes() -> dict[str, Any]:
    """Return the probes. The startup probe waits for log recovery, which the liveness probe would cut short."""
    return {
        "startupProbe": {"httpGet": _http_get("/healthz"), "periodSeconds": 1, "failureThreshold": RECOVERY_S_MAX},
        "readinessProbe": {
            "httpGet": _http_get("/readyz"),
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": _http_get("/healthz"),
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


def _http_get(path: str) -> dict[str, Any]:
    return {"path": path, "port": "http"}


def claim_template(storage: Storage) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {"metadata": {"name": CLAIM}, "spec": spec}
