"""Services of a listener: one for all brokers, and one for each broker if the listener is exposed.

They belong to the BrokerListener and are deleted with it.
"""

from typing import Any

from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.resources.labels import LISTENER_LABEL, POD_NAME_LABEL, labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata
from sluicegate_operator.resources.service import port_name

BROKER = "broker"


def broker_service_name(listener: BrokerListener, broker_id: int) -> str:
    return f"{listener.name}-{broker_id}"


def is_service_name(listener: BrokerListener, name: str) -> bool:
    """Return whether a Service of the listener may have this name."""
    base, _, broker_id = name.rpartition("-")
    return name == listener.name or (base == listener.name and broker_id.isdecimal())


def listener_service(listener: BrokerListener) -> dict[str, Any]:
    """Return the Service for all brokers, which has the BrokerListener's own name."""
    ports = listener.spec.node_ports
    return _service(listener, listener.name, node_port=ports.bootstrap if ports else None)


def broker_service(listener: BrokerListener, broker_id: int) -> dict[str, Any]:
    """Return the Service of one broker, which routes to the broker even before its pod is ready.

    Clients get the Service's address after it routes to the broker.
    """
    ports = listener.spec.node_ports
    first = ports.first_broker if ports else None
    service = _service(
        listener,
        broker_service_name(listener, broker_id),
        node_port=None if first is None else first + broker_id,
    )
    service["spec"]["publishNotReadyAddresses"] = True
    service["spec"]["selector"][POD_NAME_LABEL] = f"{node_set_name(listener.spec.cluster_ref.name, BROKER)}-{broker_id}"
    return service


def _service(listener: BrokerListener, name: str, node_port: int | None) -> dict[str, Any]:
    cluster, spec = listener.spec.cluster_ref.name, listener.spec
    port: dict[str, Any] = {"name": port_name(spec.name), "port": spec.port, "targetPort": spec.port, "protocol": "TCP"}
    if node_port is not None:
        port["nodePort"] = node_port
    service: dict[str, Any] = {"type": spec.exposure, "selector": selector(cluster, BROKER), "ports": [port]}
    if spec.is_exposed:
        # Otherwise the node's address hides the client's, and limits of addresses hit all clients behind the node.
        service["externalTrafficPolicy"] = spec.external_traffic_policy or "Local"
    if spec.load_balancer_class is not None:
        service["loadBalancerClass"] = spec.load_balancer_class
    if spec.load_balancer_source_ranges is not None:
        service["loadBalancerSourceRanges"] = list(spec.load_balancer_source_ranges)
    metadata = child_metadata(listener, name, labels(cluster, BROKER) | {LISTENER_LABEL: spec.name})
    if spec.annotations:
        metadata["annotations"] = dict(spec.annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}
