"""All children of a bundled cluster, in the order in which they should be applied.

The module combines `cluster_layout` with the builders of `resources`. Nodes bind to their pod's address and are reached
by it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.pod_settings import PodSettings
from sluicegate_operator.planning.layout.canonical import canonical_cluster, canonical_layout
from sluicegate_operator.planning.layout.cluster_layout import (
    CONTROLLER_PORT,
    FIRST_CONTROLLER_ID,
    HTTP_PORT,
    INTERNAL,
    INTERNAL_PORT,
    ClusterLayout,
    NodePlace,
    Role,
    cluster_listeners,
    node_overrides,
    plan_cluster,
    without_client_listeners,
)
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, node_revision
from sluicegate_operator.planning.layout.volumes import wanted_storage
from sluicegate_operator.resources.config_map import config_map
from sluicegate_operator.resources.controller_role import journal_rights
from sluicegate_operator.resources.listener_services import broker_service, listener_service
from sluicegate_operator.resources.network_policy import OpenPorts, network_policy
from sluicegate_operator.resources.nodes.pod_disruption_budget import pod_disruption_budget
from sluicegate_operator.resources.nodes.statefulset import (
    LOG_DIR,
    SHUTDOWN_TIMEOUT_S,
    NodeSet,
    image_of,
    pod_spec,
    statefulset,
)
from sluicegate_operator.resources.observer_code import observer_python_path, observer_volumes
from sluicegate_operator.resources.properties import render_properties
from sluicegate_operator.resources.rack import RACK_FILE
from sluicegate_operator.resources.service import (
    controller_service,
    controller_service_name,
    headless_service,
    port_name,
)
from sluicegate_operator.resources.service_account import service_account

Json = dict[str, Any]
_INDEX = "$(POD_INDEX)"


def cluster_children(
    cluster: BrokerCluster, listeners: Sequence[BrokerListener], broker_count: int | None = None
) -> list[Json]:
    """Return the child objects of a cluster, controllers first.

    The Services of listeners belong to other owners, see `listener_children`. `broker_count` is the number of broker
    pods, which differs from the spec while the cluster scales.
    """
    layout = plan_cluster(cluster, listeners, broker_count)
    children = [service_account(cluster)]
    if cluster.spec.shares_journal:
        children += journal_rights(cluster)
    children += [controller_service(cluster, ordinal, CONTROLLER_PORT) for ordinal in range(len(layout.controller_ids))]
    for role in (Role.CONTROLLER, Role.BROKER):
        nodes = node_set(cluster, layout, role)
        children += [
            config_map(cluster, nodes.role, nodes.properties),
            headless_service(cluster, nodes.role, {**nodes.ports, "http": HTTP_PORT}),
            statefulset(cluster, nodes, wanted_revision(cluster, layout, role).encode()),
            pod_disruption_budget(cluster, nodes.role),
        ]
    return children


def network_policies(
    cluster: BrokerCluster, listeners: Sequence[BrokerListener], operator_namespace: str
) -> list[Json]:
    """Return the NetworkPolicies of a cluster, controllers first. `operator_namespace` is the operator's own."""
    clients = [port.port for port in plan_cluster(cluster, listeners).listeners if port.name != INTERNAL]
    return [
        network_policy(cluster, ports, operator_namespace)
        for ports in (
            OpenPorts(Role.CONTROLLER.value, to_all=[HTTP_PORT], within=[CONTROLLER_PORT]),
            OpenPorts(Role.BROKER.value, to_all=[*clients, HTTP_PORT], within=[INTERNAL_PORT]),
        )
    ]


def wanted_revision(cluster: BrokerCluster, layout: ClusterLayout, role: Role) -> NodeRevision:
    """Return the revision that restarted pods of this role carry as an annotation; see restart_reasons.

    The revision excludes client listeners, which change while brokers run, and the spelling of values.
    """
    lasting = without_client_listeners(layout)
    written = _revision(cluster, lasting, role)
    one, its_layout = canonical_cluster(cluster), canonical_layout(lasting)
    if one.spec == cluster.spec and its_layout == lasting:
        return written
    return replace(_revision(one, its_layout, role), as_written=written)


def _revision(cluster: BrokerCluster, lasting: ClusterLayout, role: Role) -> NodeRevision:
    nodes = node_set(cluster, lasting, role)
    resources = nodes.resources.model_dump(by_alias=True, exclude_none=True) if nodes.resources else None
    properties = {**lasting.properties(role), **nodes.overrides}
    properties |= _other_fields(cluster, nodes)
    return node_revision(properties, image_of(cluster), resources, pod_spec(cluster, nodes))


def _other_fields(cluster: BrokerCluster, nodes: NodeSet) -> dict[str, str]:
    """Return the parts of the pods that come from other fields of the spec, by field: a roll names the field."""
    parts: dict[str, object] = {}
    if nodes.pod != PodSettings():
        parts[f"spec.{nodes.role}s.pod"] = nodes.pod.model_dump(by_alias=True, exclude_none=True)
    if cluster.spec.image_pull_secrets:
        parts["spec.imagePullSecrets"] = cluster.spec.image_pull_secrets
    if nodes.is_broker and (landing := cluster.spec.landing):
        parts["spec.audit"] = landing.model_dump(by_alias=True, exclude_none=True)
    if nodes.is_broker and (volumes := observer_volumes(cluster)):
        parts["spec.observers"] = [*volumes, observer_python_path(cluster)]
    return {field: json.dumps(part, sort_keys=True) for field, part in parts.items()}


def listener_children(
    cluster: BrokerCluster, listeners: Sequence[BrokerListener], broker_count: int | None = None
) -> dict[str, list[Json]]:
    """Return the Services by BrokerListener name, the Service of all brokers first.

    Listeners that clash with an older one have none, because no broker opens a port for them.
    """
    layout = plan_cluster(cluster, listeners, broker_count)
    clashing = {clash.resource for clash in layout.clashes}
    children = {}
    for listener in cluster_listeners(cluster, listeners):
        if listener.name not in clashing:
            ids = layout.broker_ids if listener.spec.is_exposed else ()
            children[listener.name] = [listener_service(listener), *(broker_service(listener, id_) for id_ in ids)]
    return children


def controller_addresses(layout: ClusterLayout) -> tuple[str, ...]:
    names = (controller_service_name(layout.name, ordinal) for ordinal in range(len(layout.controller_ids)))
    return tuple(f"{name}:{CONTROLLER_PORT}" for name in names)


def node_set(cluster: BrokerCluster, layout: ClusterLayout, role: Role) -> NodeSet:
    """Return the StatefulSet's part of the layout for brokers or controllers. Raises ValueError without own brokers."""
    brokers, controllers = cluster.spec.brokers, cluster.spec.controllers
    if brokers is None:
        raise ValueError(f"BrokerCluster {cluster.name} has no brokers of its own")
    place = NodePlace(
        "$(POD_IP)",
        "$(POD_IP)",
        LOG_DIR,
        controller_addresses(layout),
        shutdown_timeout_ms=SHUTDOWN_TIMEOUT_S * 1000,
        rack_file=RACK_FILE if cluster.spec.topology_key else None,
    )
    is_broker = role is Role.BROKER
    # 100 before a one-digit index is 1000 and up; a spec can ask for nine controllers at most.
    node_id = _INDEX if is_broker else f"{FIRST_CONTROLLER_ID // 10}{_INDEX}"
    return NodeSet(
        # YAML supports plain strings only.
        role=role.value,
        replicas=len(layout.node_ids(role)),
        storage=wanted_storage(cluster, role),
        properties=render_properties(layout.properties(role)),
        overrides=node_overrides(layout, node_id, role, place),
        ports=_port_names(layout, role),
        http_port=HTTP_PORT,
        resources=brokers.resources if is_broker else controllers.resources if controllers else None,
        pod=(brokers.pod if is_broker else controllers.pod if controllers else None) or PodSettings(),
        shares_journal=not is_broker and cluster.spec.shares_journal,
        topology_key=cluster.spec.topology_key if is_broker else None,
        stores=layout.role_stores(role),
    )


def _port_names(layout: ClusterLayout, role: Role) -> dict[str, int]:
    """Return port numbers by port name.

    If cutting makes two names equal, the later one is `p` and its port's number.
    """
    names: dict[str, int] = {}
    for listener in layout.role_listeners(role):
        name = port_name(listener.name)
        names[f"p{listener.port}" if name in (*names, "http") else name] = listener.port
    return names
