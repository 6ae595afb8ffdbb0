"""What kind is told of a cluster, and the pages that are asked for when one does not come up."""

from typing import Any

SERVICE_SUBNET = "10.96.0.0/16"
POD_SUBNET = "10.244.0.0/16"
DNS_ADDRESS = "10.96.0.10"

ZONE = "topology.kubernetes.io/zone"


def kind_config(nodes: int) -> dict[str, Any]:
    """A control plane that takes pods too when it is the only node; each node is a zone."""
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"podSubnet": POD_SUBNET, "serviceSubnet": SERVICE_SUBNET},
        "nodes": [
            {"role": "control-plane" if number == 0 else "worker", "labels": {ZONE: f"zone-{'abcdefghi'[number]}"}}
            for number in range(nodes)
        ],
    }
