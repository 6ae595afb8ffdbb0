"""Prometheus for a control plane, configured as by its operator: a PodMonitor becomes a scrape configuration.

The operator's process is not a pod here: it is scraped at its listener, with the labels of a ServiceMonitor.
"""

import json
from pathlib import Path
from typing import Any

from e2e.cluster.control_plane import ControlPlane
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess

Json = dict[str, Any]

_POD = "__meta_kubernetes_pod_"
_META = {"namespace": "__meta_kubernetes_namespace", "pod": f"{_POD}name", "container": f"{_POD}container_name"}


def scrape_config_of_pods(monitor: Json, targets: Path) -> Json:
    """Convert a PodMonitor with one endpoint as the Prometheus operator does, for the fields that ours has.

    `targets` is the file of `write_targets`.
    """
    spec = monitor["spec"]
    [endpoint] = spec["podMetricsEndpoints"]
    keeps = [
        *(_keep(_label(name), value) for name, value in spec["selector"]["matchLabels"].items()),
        *(_keep(*_matched(expression)) for expression in spec["selector"]["matchExpressions"]),
        _keep(f"{_POD}container_port_name", endpoint["port"]),
    ]
    namespaces = spec["namespaceSelector"]
    if not namespaces.get("any"):
        keeps.append(_keep(_META["namespace"], "|".join(namespaces["matchNames"])))
    return {
        "job_name": f"podMonitor/{monitor['metadata']['namespace']}/{monitor['metadata']['name']}/0",
        "metrics_path": endpoint["path"],
        "file_sd_configs": [{"files": [str(targets)]}],
        "relabel_configs": [
            *keeps,
            *({"source_labels": [source], "target_label": target} for target, source in _META.items()),
            *(_relabeling(found) for found in endpoint.get("relabelings", ())),
        ],
    }


def write_targets(plane: ControlPlane, path: Path) -> None:
    """Write every port of every current pod, as Prometheus' own pod discovery would: Debian's build has none."""
    pods = plane.get("pods", "--all-namespaces")["items"]
    groups = [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": _meta_labels(pod, container, port["name"]),
        }
        for pod in pods
        if pod.get("status", {}).get("podIP")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    ]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(groups))
    fresh.rename(path)


def _meta_labels(pod: Json, container: Json, port: str) -> dict[str, str]:
    meta = pod["metadata"]
    labels = meta.get("labels", {})
    return {
        "__meta_kubernetes_namespace": meta["namespace"],
        f"{_POD}name": meta["name"],
        f"{_POD}container_name": container["name"],
        f"{_POD}container_port_name": port,
        **{_label(name): value for name, value in labels.items()},
        **{_present(name): "true" for name in labels},
    }


def scrape_config_of_operator(monitor: Json, operator: OperatorProcess) -> Json:
    [endpoint] = monitor["spec"]["endpoints"]
    return {
        "job_name": f"serviceMonitor/{monitor['metadata']['namespace']}/{monitor['metadata']['name']}/0",
        "metrics_path": endpoint["path"],
        "honor_labels": endpoint.get("honorLabels", False),
        "static_configs": [
            {
                "targets": [f"127.0.0.1:{operator.metrics_port}"],
                "labels": {"namespace": OPERATOR_NAMESPACE, "pod": operator.identity},
            }
        ],
        "relabel_configs": [_relabeling(found) for found in endpoint.get("relabelings", ())],
    }


def _label(name: str) -> str:
    return f"{_POD}label_" + "".join(letter if letter.isalnum() else "_" for letter in name)


def _present(name: str) -> str:
    return _label(name).replace("_label_", "_labelpresent_")


def _matched(expression: Json) -> tuple[str, str]:
    if expression["operator"] == "Exists":
        return _present(expression["key"]), "true"
    assert expression["operator"] == "In", expression
    return _label(expression["key"]), "|".join(expression["values"])


def _keep(source: str, pattern: str) -> Json:
    return {"source_labels": [source], "regex": pattern, "action": "keep"}


def _relabeling(relabeling: Json) -> Json:
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return {names.get(name, name): value for name, value in relabeling.items()}
