"""Services of nodes: a headless one for the pods of each role, and one for each controller."""

import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import POD_NAME_LABEL, labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata

CONTROLLER = "controller"


def port_name(listener: str) -> str:
    """Return a valid port name: at most 15 characters of a-z, 0-9 and single '-', with no '-' at the ends."""
    return re.sub("_+", "-", listener.lower())[:15].strip("-")


def headless_service(cluster: BrokerCluster, role: str, ports: Mapping[str, int]) -> dict[str, Any]:
    """Return the Service for the pods' DNS names, which StatefulSets require."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(cluster.name, role),
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports.items()
            ],
        },
    }


def controller_service_name(cluster: str, ordinal: int) -> str:
    """Return the name of a controller's Service. It has no dot: it is found in the first domain that a pod searches."""
    return f"{node_set_name(cluster, CONTROLLER)}-{ordinal}"


def controller_service(cluster: BrokerCluster, ordinal: int, port: int) -> dict[str, Any]:
    """Return the Service by which brokers reach one controller: it exists before any pod, and stays when pods change.

    A pod's own name does not exist while the pod has no address. A client that asks too early gets that negative answer
    from cluster DNS for half a minute.
    """
    name = controller_service_name(cluster.name, ordinal)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(cluster, name, labels(cluster.name, CONTROLLER)),
        "spec": {
            "type": "ClusterIP",
            # Brokers register before their controller is ready.
            "publishNotReadyAddresses": True,
            # The pod of that ordinal has the same name.
            "selector": selector(cluster.name, CONTROLLER) | {POD_NAME_LABEL: name},
            "ports": [{"name": "controller", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
