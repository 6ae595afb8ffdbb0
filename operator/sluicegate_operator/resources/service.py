"""Services: a headless one for the pods of each role, and one in front of each listener."""

import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.resources.labels import LISTENER_LABEL, labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata


def port_name(listener: str) -> str:
    """A port's name has at most 15 characters of a-z, 0-9 and single '-', with a letter and no '-' at the ends."""
    return re.sub("_+", "-", listener.lower())[:15].strip("-")


def headless_service(cluster: BrokerCluster, role: str, ports: Mapping[str, int]) -> dict[str, Any]:
    """Names of pods, also of those that are not ready: brokers find their controller before anything is."""
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


def listener_service(listener: BrokerListener) -> dict[str, Any]:
    """Has the BrokerListener's own name, and belongs to it."""
    cluster, spec = listener.spec.cluster_ref.name, listener.spec
    service: dict[str, Any] = {
        "type": spec.exposure,
        "selector": selector(cluster, "broker"),
        "ports": [
            {"name": port_name(spec.name), "port": spec.port, "targetPort": spec.port, "protocol": "TCP"},
        ],
    }
    if spec.exposure != "ClusterIP":
        # Otherwise the node's address hides the client's, and limits of addresses hit everybody behind the node.
        service["externalTrafficPolicy"] = "Local"
    names = labels(cluster, "broker") | {LISTENER_LABEL: spec.name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(listener, listener.name, names),
        "spec": service,
    }
