"""The configuration of a kind cluster, and the pages to request if it does not start."""

from typing import Any

SERVICE_SUBNET = "10.96.0.0/16"
POD_SUBNET = "10.244.0.0/16"
DNS_ADDRESS = "10.96.0.10"

ZONE = "topology.kubernetes.io/zone"


def kind_config(nodes: int) -> dict[str, Any]:
    """Return the configuration.

    An only node is a control plane that also accepts pods; each node is a zone.
    """
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"podSubnet": POD_SUBNET, "serviceSubnet": SERVICE_SUBNET},
        "nodes": [
            {"role": "control-plane" if number == 0 else "worker", "labels": {ZONE: f"zone-{'abcdefghi'[number]}"}}
            for number in range(nodes)
        ],
    }
