"""Brokers as pods: apply a cluster's children, and find its brokers by their pods' addresses.

Brokers are reached by pod address, so limits depend on neither DNS nor endpoints.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.claims import keep_template_size, make_claims, reconcile_claims
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView, controller_view
from sluicegate_operator.fleet.kafka.tls_reports import NodePlaced, ask_in_force
from sluicegate_operator.fleet.kubernetes.kubernetes_listeners import KubernetesListeners
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.fleet.pods.config_maps import collect_config_maps, taken_up
from sluicegate_operator.fleet.pods.finding_pods import AbsentPods, all_pods, listed_pods
from sluicegate_operator.fleet.pods.landing_places import LandingPlaces
from sluicegate_operator.fleet.pods.node_sets import find_node_set, read_node_set
from sluicegate_operator.fleet.pods.pods import NodePod, broker_addresses
from sluicegate_operator.fleet.pods.racks import KubernetesRacks
from sluicegate_operator.fleet.pods.rolls import NodeSetSeen, node_views, respelled
from sluicegate_operator.fleet.protocol import Incarnation, NodesSeen
from sluicegate_operator.kube.client.children import who_set
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import (
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    STATEFUL_SET,
)
from sluicegate_operator.planning.certificates.renewal import NodeInForce
from sluicegate_operator.planning.layout.children import cluster_children, network_policies, wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import HTTP_PORT, Role, cluster_id, plan_cluster, role_of
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision
from sluicegate_operator.planning.layout.volumes import VolumesSeen
from sluicegate_operator.planning.registrations.fencing import (
    BrokerPod,
    FenceOrder,
    SessionPods,
    plan_fencing,
    session_pods,
)
from sluicegate_operator.resources.labels import RESTARTED_AT, REVISION, node_set_name
from sluicegate_operator.resources.observer_code import observer_code
from sluicegate_operator.resources.owner import is_controlled_by, why_not_ours


@dataclass(frozen=True, slots=True)
class Sighting:
    """The result of one observation of a cluster, with `view` read before `pods`.

    planning.registrations.fencing explains the order. `session_pods` has the results of all observations.
    """

    view: ControllerView
    pods: tuple[NodePod, ...]
    session_pods: SessionPods = field(default_factory=dict)

    @property
    def addresses(self) -> tuple[BrokerAddress, ...]:
        return broker_addresses(self.pods)

    def of(self, role: Role) -> tuple[NodePod, ...]:
        return tuple(pod for pod in self.pods if pod.role is role)

    @property
    def broker_pods(self) -> tuple[BrokerPod, ...]:
        return _broker_pods(self.pods)

    def fence_orders(self, sent: Collection[tuple[int, int]] = ()) -> tuple[FenceOrder, ...]:
        """Return the orders that end sessions of brokers that are gone.

        `sent` has the ids and epochs of earlier orders: `plan_fencing` then wants another proof.
        """
        if self.view.overview is None:
            return ()
        return tuple(plan_fencing(self.view.overview, self.broker_pods, sent, self.session_pods))


@dataclass(frozen=True, slots=True)
class AppliedNodes:
    """The result of `apply`.

    `uncollected`: a sentence for each unused ConfigMap that cannot be deleted. `retried`: a refusal that may pass, of
    an object that no node waits for.
    """

    scaled_by_others: tuple[str, ...]
    volumes: VolumesSeen
    uncollected: tuple[str, ...] = ()
    retried: KubeError | None = None


@dataclass(slots=True)
class KubernetesFleet:
    """The nodes of clusters as children of their objects in the API server.

    Nothing is durable: everything is read again.
    """

    _kube: KubeClient
    _operator_namespace: str = "default"
    _images: Images = field(default_factory=Images)
    _looked: ByCluster["_Looked"] = field(default_factory=lambda: ByCluster(_Looked))
    _applying: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Two queues apply one cluster's children; neither may undo the other's number of brokers."""
    listeners: KubernetesListeners = field(init=False)
    racks: KubernetesRacks = field(init=False)
    _landing: LandingPlaces = field(init=False)
    poll_every_s: float = 1.0

    def __post_init__(self) -> None:
        self.listeners, self.racks = KubernetesListeners(self._kube), KubernetesRacks(self._kube)
        self._landing = LandingPlaces(self._kube)

    async def apply(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        broker_count: int | None = None,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> AppliedNodes:
        """Apply the Kubernetes objects that a cluster consists of. Raises KubeError.

        Claims and pod templates are checked before anything is applied. After a later error, earlier children stay
        applied, and nothing is applied that may need the refused one. PodDisruptionBudgets come last.

        Without `broker_count` there are never fewer brokers than before: planning.rolls.scale decides which may be
        removed. `check` raises if that decision is outdated; it is called while no other task applies children of this
        cluster.
        """
        async with self._applying[cluster.namespace, cluster.name]:
            if check is not None:
                await check()
            async with self._landing.held_for(cluster):
                return await self._apply(cluster, listeners, broker_count)

    async def _apply(
        self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], broker_count: int | None
    ) -> AppliedNodes:
        there = {role: await find_node_set(self._kube, cluster, role) for role in Role}
        count = broker_count
        if count is None and cluster.spec.brokers is not None:
            brokers = there[Role.BROKER]
            count = max(cluster.spec.brokers.replicas, int(brokers["spec"]["replicas"]) if brokers else 0)
        started = _any_of(cluster, there.values())
        claims = await reconcile_claims(self._kube, cluster, count or 0, started=started, node_sets=there)
        wanted = cluster_children(self._images.of_cluster(cluster), listeners, count)
        children = [_with_claims_as_they_are(child, there) for child in wanted]
        await self._try_out(there, children)
        await self._hold_code_name(cluster)
        await self._apply_network_policies(cluster, listeners)
        scaled: dict[str, None] = {}

        def seen(found: Mapping[str, Any]) -> None:
            if broker_count is None:
                _check_not_fewer(found, cluster, count or 0)
            scaled.update(dict.fromkeys(_scaled(found, cluster)))

        # No node needs a PodDisruptionBudget, so no node waits for one that is refused.
        budgets = [child for child in children if child["kind"] == POD_DISRUPTION_BUDGET.kind]
        for child in (each for each in children if each not in budgets):
            if child["kind"] == STATEFUL_SET.kind:
                await make_claims(self._kube, cluster, [new for new in claims.make if new.role is role_of(child)])
            await self._kube.apply(child, seen)
        refusals = Refusals()
        for child in budgets:
            with refusals.kept():
                await self._kube.apply(child)
        if claims.retried is not None:
            refusals.keep(claims.retried)
        await self._remove_network_policies(cluster, listeners, refusals)
        uncollected = await collect_config_maps(self._kube, cluster, refusals)
        if refusals.first is not None and not refusals.first.retriable:
            raise refusals.first
        return AppliedNodes(tuple(scaled), claims.volumes, uncollected, refusals.first)

    async def _try_out(
        self, there: Mapping[Role, Mapping[str, Any] | None], children: Sequence[Mapping[str, Any]]
    ) -> None:
        """Let the API server check changed pod templates before anything is written."""
        for child in children:
            if child["kind"] != STATEFUL_SET.kind:
                continue
            found = there[role_of(child)]
            if found is None or _revision(found) != _revision(child):
                await self._kube.try_out(child)

    async def _hold_code_name(self, cluster: BrokerCluster) -> None:
        """Create the empty ConfigMap for observer code before the pods that import modules from it.

        So another user's ConfigMap cannot have its name. Raises NameTakenError if it has. Its contents:
        handlers.reconcilers.observer_code.
        """
        if not cluster.spec.allows_config_map_code:
            return
        wanted = observer_code(cluster, {})
        name = wanted["metadata"]["name"]
        for ask in (self._kube.cache.get, self._kube.get):
            found = await ask(CONFIG_MAP, cluster.namespace, name)
            if found is not None and not why_not_ours(found, wanted):
                return
        # Raises for a ConfigMap of another owner.
        await self._kube.apply(wanted)

    async def _apply_network_policies(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        if cluster.spec.network_policies:
            for policy in network_policies(cluster, listeners, self._operator_namespace):
                await self._kube.apply(policy)

    async def _remove_network_policies(
        self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], refusals: Refusals
    ) -> None:
        """Remove the NetworkPolicies last, so that no node waits if the API server refuses."""
        if cluster.spec.network_policies:
            return
        for policy in network_policies(cluster, listeners, self._operator_namespace):
            name = policy["metadata"]["name"]
            found = await self._kube.cache.get(NETWORK_POLICY, cluster.namespace, name)
            if found is not None and not why_not_ours(found, policy):
                meta = found["metadata"]
                seen = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
                with refusals.kept():
                    await self._kube.delete(NETWORK_POLICY, cluster.namespace, name, **seen)

    async def node_sets(
        self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], *, fresh: bool = False
    ) -> dict[Role, NodeSetSeen] | None:
        """Return both StatefulSets compared with their wanted state; None before both exist.

        They are read from the cache, or with `fresh` from the API server.
        """
        seen = {}
        wanted, layout = self._images.of_cluster(cluster), plan_cluster(cluster, listeners)
        for role in Role:
            found = await read_node_set(self._kube, cluster, role, fresh=fresh)
            if found is None:
                return None
            seen[role] = _node_set_seen(found, wanted_revision(wanted, layout, role))
        return seen

    async def pods(self, cluster: BrokerCluster) -> list[NodePod]:
        """Return the cluster's pods, also those that are being deleted."""
        return await listed_pods(self._kube, cluster)

    async def observe(self, cluster: BrokerCluster, *, fresh: bool = False) -> Sighting:
        """Observe the controllers and pods of a cluster. Raises KubeError; errors of controllers are in the view.

        Pods are read from the cache, or with `fresh` from the API server: a pod's absence from the cache proves
        nothing.
        """
        looked = self._looked.of(cluster)
        places = looked.controllers or _controllers(cluster, await self.pods(cluster))
        view = await controller_view(places)
        pods = await all_pods(self._kube, cluster, view.overview, looked.absent, fresh=fresh)
        now = looked.controllers = _controllers(cluster, pods)
        if view.overview is None and now != places:
            view = await controller_view(now)
            pods = await all_pods(self._kube, cluster, view.overview, looked.absent, fresh=fresh)
        seen_in = looked.session_pods
        if view.overview is not None:
            now_in = session_pods(view.overview, _broker_pods(pods), seen_in)
            if not fresh and now_in.keys() - seen_in.keys():
                # A new session may belong to a pod that the cache does not have yet, at its predecessor's address.
                pods = await all_pods(self._kube, cluster, view.overview, fresh=True)
                now_in = session_pods(view.overview, _broker_pods(pods), seen_in)
            seen_in = looked.session_pods = now_in
        return Sighting(view, tuple(pods), seen_in)

    def forget(self, namespace: str, name: str) -> None:
        self._looked.forget((namespace, name))
        if not self._applying[namespace, name].locked():
            del self._applying[namespace, name]

    async def nodes(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> NodesSeen | None:
        sets = await self.node_sets(cluster, listeners)
        if sets is None:
            return None
        seen = await self.observe(cluster)
        found = {role: (sets[role], seen.of(role)) for role in Role}
        return NodesSeen(
            view=seen.view,
            nodes=[node for role in Role for node in node_views(cluster.name, role, *found[role])],
            incarnations={
                pod.name: Incarnation(pod.uid, pod.resource_version, pod.ready, pod.deleting) for pod in seen.pods
            },
            addresses=seen.addresses,
            broker_count=sets[Role.BROKER].replicas,
            broker_ids=[pod.node_id for pod in seen.of(Role.BROKER)],
            fences=seen.fence_orders(),
            template_observed=all(node_set.observed for node_set in sets.values()),
            respelled={pod.name: sets[role].revision.encode() for role in Role for pod in respelled(*found[role])},
        )

    async def check(self, cluster: BrokerCluster, seen: NodesSeen) -> None:
        """Implement `Fleet.check`; it also finds pods without the cluster's label, like `observe`."""
        pods = await all_pods(self._kube, cluster, seen.view.overview, fresh=True)
        found = {(pod.uid, pod.ready, pod.deleting) for pod in pods}
        known = seen.incarnations.items()
        changed = sorted(name for name, one in known if (one.id, one.ready, one.deleting) not in found)
        if changed:
            raise KubeConflictError(f"{', '.join(changed)} changed meanwhile")

    async def restart(self, cluster: BrokerCluster, seen: NodesSeen, name: str) -> None:
        """Delete the pod; its StatefulSet creates the next one."""
        pod = seen.incarnations[name]
        await self._kube.delete(POD, cluster.namespace, name, uid=pod.id, resource_version=pod.version)

    async def respell(self, cluster: BrokerCluster, seen: NodesSeen, name: str, revision: str) -> None:
        fields, seen_as = {"annotations": {REVISION: revision}}, {"uid": seen.incarnations[name].id}
        await self._kube.patch_metadata(POD, cluster.namespace, name, fields, seen_as)

    async def scale(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        seen: NodesSeen,
        brokers: int,
        check: Callable[[], Awaitable[None]],
    ) -> Sequence[str]:
        async def unchanged() -> None:
            await check()
            sets = await self.node_sets(cluster, listeners, fresh=True)
            found = None if sets is None else sets[Role.BROKER].replicas
            if found != seen.broker_count:
                asked = f"its StatefulSet requests {found} brokers now, not {seen.broker_count}"
                raise KubeConflictError(asked)

        return (await self.apply(cluster, listeners, brokers, unchanged)).scaled_by_others

    async def in_force(self, cluster: BrokerCluster) -> Sequence[NodeInForce]:
        """Return the certificates that each node uses. A pod that is not scheduled yet will get the newest ones."""
        pods = [pod for pod in await listed_pods(self._kube, cluster, fresh=True) if pod.node]
        return await ask_in_force(
            NodePlaced(pod.name, (pod.host, HTTP_PORT) if pod.host else None, leaving=pod.deleting) for pod in pods
        )

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Return the addresses of brokers that have one now, in order of id."""
        return broker_addresses(await self.pods(cluster))


@dataclass(slots=True)
class _Looked:
    """The state of one BrokerCluster that is kept between observations."""

    controllers: tuple[ControllerPlace, ...] = ()
    """The controllers' last known addresses, so that one observation lists the pods once."""
    session_pods: dict[tuple[int, int], str] = field(default_factory=dict)
    absent: AbsentPods = field(default_factory=AbsentPods)


def _with_claims_as_they_are(
    child: Mapping[str, Any], there: Mapping[Role, Mapping[str, Any] | None]
) -> Mapping[str, Any]:
    if child["kind"] != STATEFUL_SET.kind:
        return child
    found = there[role_of(child)]
    return child if found is None else keep_template_size(child, found)


async def has_started(kube: KubeClient, cluster: BrokerCluster) -> bool:
    """Return whether a StatefulSet of the cluster exists in the cache. Raises KubeError."""
    names = [node_set_name(cluster.name, role) for role in Role]
    return _any_of(cluster, [await kube.cache.get(STATEFUL_SET, cluster.namespace, name) for name in names])


def _any_of(cluster: BrokerCluster, node_sets: Iterable[Mapping[str, Any] | None]) -> bool:
    return any(found is not None and is_controlled_by(found, cluster.metadata.uid) for found in node_sets)


def _broker_pods(pods: Sequence[NodePod]) -> tuple[BrokerPod, ...]:
    brokers = (pod for pod in pods if pod.role is Role.BROKER)
    return tuple(
        BrokerPod(pod.name, pod.node_id, pod.host, pod.node_lost, pod.ended, pod.uid, pod.deleting) for pod in brokers
    )


def _scaled(found: Mapping[str, Any], cluster: BrokerCluster) -> Sequence[str]:
    """Return a sentence if another client has set the StatefulSet's number of pods to another than the spec's.

    It is empty for other objects. Only planning.rolls.scale removes brokers, so the number may be reset later.
    """
    who = who_set(found, "spec", "replicas") if found["kind"] == STATEFUL_SET.kind else ""
    if not who:
        return ()
    role = next(role for role in Role if node_set_name(cluster.name, role) == found["metadata"]["name"])
    if int(found["spec"]["replicas"]) == len(plan_cluster(cluster, ()).node_ids(role)):
        return ()
    return (
        f"StatefulSet {found['metadata']['name']} was scaled to {found['spec']['replicas']} by {who}, and the"
        f" operator scales it back: set spec.{role}s.replicas of BrokerCluster {cluster.name} instead",
    )


def _check_not_fewer(found: Mapping[str, Any], cluster: BrokerCluster, brokers: int) -> None:
    """Raise KubeConflictError if `found` asks for more brokers than were planned.

    The cache was outdated then, and no plan has decided which of them may be removed.
    """
    ours = (STATEFUL_SET.kind, node_set_name(cluster.name, Role.BROKER))
    if (found["kind"], found["metadata"]["name"]) == ours and int(found["spec"]["replicas"]) > brokers:
        raise KubeConflictError(f"StatefulSet {ours[1]} requests {found['spec']['replicas']} brokers now")


def _node_set_seen(found: Mapping[str, Any], wanted: NodeRevision) -> NodeSetSeen:
    observed = taken_up(found) and _revision(found) == wanted.encode()
    return NodeSetSeen(int(found["spec"]["replicas"]), wanted, observed, _of_pods(found).get(RESTARTED_AT, ""))


def _revision(node_set: Mapping[str, Any]) -> str | None:
    """Return the revision that its pods are started with from now on."""
    return _of_pods(node_set).get(REVISION)


def _of_pods(node_set: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations that its pods get."""
    annotations: Mapping[str, str] = node_set["spec"]["template"]["metadata"].get("annotations") or {}
    return annotations


def _controllers(cluster: BrokerCluster, pods: Sequence[NodePod]) -> tuple[ControllerPlace, ...]:
    return tuple(
        ControllerPlace(pod.node_id, pod.host, cluster_id=cluster_id(cluster))
        for pod in pods
        if pod.role is Role.CONTROLLER and pod.host
    )
