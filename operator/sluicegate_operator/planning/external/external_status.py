"""A BrokerCluster with runtime External: the status of an Apache Kafka cluster. Pure.

Kafka's cluster.id identifies the governed cluster: the id in the spec, else that of the first cluster that answered.
The latter is written into the status before anything is changed. Values that change all the time are rounded to coarse
steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.broker_cluster_status import NO_CONTROLLER, BrokerClusterStatus
from sluicegate_operator.api.release import own_release
from sluicegate_operator.planning.clusters.cluster_access import metadata_version
from sluicegate_operator.planning.clusters.cluster_status import MESSAGE_MAX, PAUSED
from sluicegate_operator.planning.registrations.registrations import age_step, lag_step
from sluicegate_operator.planning.status.conditions import (
    Finding,
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.status.seniority import Seniority, seniority, seniority_of_body
from sluicegate_operator.planning.status.unreadable import text_at

Sibling = BrokerCluster | Mapping[str, Any]
"""A BrokerCluster, or its object in the API server if this operator cannot read it."""
VOTER_SILENCE_MAX_S = 10.0
"""Seconds without a fetch after which a controller counts as gone. Controllers fetch twice a second."""


@dataclass(frozen=True, slots=True)
class ExternalBroker:
    """A broker as its cluster reports it.

    `silent`: why the broker did not answer at its own address, empty if it did. `stranger`: a broker of another cluster
    answers there; `silent` then has the details.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False
    silent: str = ""
    stranger: bool = False

    @property
    def serves(self) -> bool:
        return not self.fenced and not self.silent


@dataclass(frozen=True, slots=True)
class Voter:
    """A controller: its lag behind the active one in records, and the seconds since its last fetch; None if unknown."""

    id: int
    lag: int | None
    silent_s: float | None

    @property
    def follows(self) -> bool:
        return self.silent_s is not None and self.silent_s <= VOTER_SILENCE_MAX_S


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controllers of an external cluster. `leader_id` is None while no controller is active."""

    leader_id: int | None
    leader_epoch: int
    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Counts of one broker: partitions that it leads, its replicas, and its replicas that are out of sync."""

    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


@dataclass(frozen=True, slots=True)
class ExternalSeen:
    """One observation of an external cluster.

    - `unseen`: why no bootstrap server answered; everything else is then empty.
    - `denied`: the reason of the condition if Secrets or credentials are the cause of `unseen`.
    - `no_quorum`: why the controllers are unknown.
    - `governed`: another BrokerCluster governs this cluster; only its id is set then.
    - `metadata_version`: the finalized level of that feature; None if the cluster does not report it.
    """

    cluster_id: str = ""
    brokers: tuple[ExternalBroker, ...] = ()
    quorum: Quorum | None = None
    no_quorum: str = ""
    metadata_version: int | None = None
    governed: str = ""
    unseen: str = ""
    denied: str = ""


@dataclass(frozen=True, slots=True)
class ConfigProgress:
    """The progress of the dynamic configuration, as in planning.clusters.cluster_status.

    `generation`: generation of the spec that the progress follows from; None is the present one.
    """

    lagging: Mapping[int, str] = field(default_factory=dict)
    refused: str = ""
    generation: int | None = None

    def follows(self, cluster: BrokerCluster) -> bool:
        """Return whether the progress follows from the present spec.

        An operator that has just started has not compared yet, and uses the observedGeneration that its predecessor
        wrote.
        """
        known = (None, cluster.metadata.generation)
        return self.generation in known or cluster.status.observed_generation == cluster.metadata.generation


def governed_id(cluster: BrokerCluster) -> str:
    """Return the id of the governed cluster; empty while it is unknown."""
    return cluster.spec.cluster_id or cluster.status.cluster_id


def why_another(cluster: BrokerCluster, answered: str) -> str:
    """Return why the cluster that answered is not the governed one; empty if the two are the same."""
    wanted = governed_id(cluster)
    if not wanted or answered == wanted:
        return ""
    return (
        f"the bootstrap servers belong to the cluster with cluster.id {answered}, but this BrokerCluster"
        f" governs {wanted}, so the operator changes nothing; correct bootstrapServers, or create a new"
        " BrokerCluster for the other cluster"
    )


def why_governed(cluster: BrokerCluster, cluster_id: str, others: Iterable[Sibling]) -> str:
    """Return why another BrokerCluster governs the cluster with this id; empty if none does.

    Two of them would overwrite each other's limits, and a Topic of one would delete records that belong to a Topic of
    the other. A BrokerCluster that runs the brokers governs them, whatever its age; otherwise the oldest one does.
    """
    governors = [found for other in others if (found := _governor(other, cluster_id)) is not None]
    if running := [age for bundled, age in governors if bundled]:
        _, namespace, name = min(running)
        return (
            f"BrokerCluster {namespace}/{name} runs the brokers of the cluster with cluster.id {cluster_id} and governs"
            " them, and nothing is changed there by this one; delete this one, or correct its bootstrapServers"
        )
    older = [age for _, age in governors if age < seniority(cluster)]
    if not older:
        return ""
    _, namespace, name = min(older)
    return (
        f"BrokerCluster {namespace}/{name} already governs the cluster with cluster.id {cluster_id}, so this"
        " BrokerCluster changes nothing; delete one of the two"
    )


def _governor(one: Sibling, cluster_id: str) -> tuple[bool, Seniority] | None:
    """Return whether the BrokerCluster runs the brokers of the cluster with this id, and its age.

    None unless it governs them. While it is being deleted, an External one governs nothing, and the brokers of a
    Bundled one still run.
    """
    if isinstance(one, BrokerCluster):
        bundled, named, age = not one.spec.is_external, governed_id(one), seniority(one)
        leaving = one.metadata.deletion_timestamp is not None
    else:
        runtime, age = text_at(one, "spec", "runtime"), seniority_of_body(one)
        bundled = runtime == "Bundled"
        named = text_at(one, "spec", "clusterId") or text_at(one, "status", "clusterId")
        leaving = runtime != "External" or bool(one["metadata"].get("deletionTimestamp"))
    governs = named == cluster_id and (bundled or not leaving)
    return (bundled, age) if governs else None


def external_status(
    cluster: BrokerCluster, seen: ExternalSeen, config: ConfigProgress, now: datetime
) -> BrokerClusterStatus:
    """Return the status of an external BrokerCluster.

    The result lacks dynamicConfigKeys and limitsSet, which are written separately. While the cluster is unknown, the
    numbers keep their old values.
    """
    old = cluster.status
    progress = _progress(cluster, seen, config)
    known = not (seen.unseen or seen.governed or why_another(cluster, seen.cluster_id))
    serving = sum(broker.serves for broker in seen.brokers)
    counted = f"{serving}/{len(seen.brokers)}"
    paused = cluster.spec.paused
    own = (
        Finding(
            "BrokersReady",
            _all_serve(seen) if known else None,
            "Counted" if known else "Unknown",
            counted if known else "",
        ),
        _controllers_ready(seen, known=known),
        Finding("Paused", paused, "Paused" if paused else "NotPaused", PAUSED if paused else ""),
    )
    leader_id = seen.quorum.leader_id if seen.quorum is not None else None
    return BrokerClusterStatus(
        observed_generation=observed_generation(cluster, old, progress),
        conditions=conditions(cluster, old, (*progress.findings, *own), now),
        brokers=counted if known else old.brokers,
        ready_brokers=serving if known else old.ready_brokers,
        version=(metadata_version(seen.metadata_version) if known else None) or old.version,
        bootstrap_servers=",".join(cluster.spec.bootstrap_servers or ()),
        cluster_id=old.cluster_id if not known else seen.cluster_id,
        controller_id=NO_CONTROLLER if leader_id is None else leader_id,
        voters=_voters(seen.quorum) if known else old.voters,
        operator_version=own_release(),
    )


def _all_serve(seen: ExternalSeen) -> bool:
    return bool(seen.brokers) and all(broker.serves for broker in seen.brokers)


def _progress(cluster: BrokerCluster, seen: ExternalSeen, config: ConfigProgress) -> Progress:
    if seen.denied:
        return stalled(seen.denied, seen.unseen[:MESSAGE_MAX])
    if seen.unseen:
        return working("Unreachable", f"no bootstrap server answers: {seen.unseen}"[:MESSAGE_MAX])
    if another := why_another(cluster, seen.cluster_id):
        return stalled("AnotherCluster", another)
    if seen.governed:
        return stalled("GovernedByAnother", seen.governed)
    if not _all_serve(seen):
        return _waiting(seen)
    if cluster.spec.paused:
        return ready("Paused", PAUSED)
    if not config.follows(cluster):
        return working("SpecChanged", "the changed spec is being compared with the brokers")
    if config.refused:
        return stalled("ConfigRefused", config.refused[:MESSAGE_MAX])
    if config.lagging:
        broker_id, what = min(config.lagging.items())
        return working(
            "ConfigApplying",
            f"{len(config.lagging)} brokers do not have the configuration yet, for example broker {broker_id}: {what}",
        )
    return ready("Governed", f"all {len(seen.brokers)} brokers answer and are unfenced")


def _waiting(seen: ExternalSeen) -> Progress:
    count = len(seen.brokers)
    if silent := [broker for broker in seen.brokers if broker.silent]:
        named = "; ".join(f"broker {broker.id}: {broker.silent}" for broker in silent)
        return working("BrokersUnreachable", f"{len(silent)}/{count} brokers do not answer: {named}"[:MESSAGE_MAX])
    fenced = ", ".join(str(broker.id) for broker in seen.brokers if broker.fenced)
    return working(
        "BrokersFenced",
        f"of {count} brokers, these are fenced: {fenced}; start them, or remove lost brokers with"
        " kafka-cluster.sh unregister"[:MESSAGE_MAX],
    )


def _controllers_ready(seen: ExternalSeen, *, known: bool) -> Finding:
    if seen.quorum is None or not known:
        return Finding("ControllersReady", None, "Unknown", seen.no_quorum)
    voters = seen.quorum.voters
    following = sum(voter.follows for voter in voters)
    active = "none" if seen.quorum.leader_id is None else seen.quorum.leader_id
    message = f"{following}/{len(voters)}, active: {active}"
    if gone := ", ".join(str(voter.id) for voter in voters if not voter.follows):
        message += f"; no contact: {gone}"
    return Finding("ControllersReady", following == len(voters), "Counted", message)


def _voters(quorum: Quorum | None) -> tuple[str, ...] | None:
    return tuple(_voter(voter, quorum) for voter in quorum.voters) if quorum is not None else None


def _voter(voter: Voter, quorum: Quorum) -> str:
    if voter.id == quorum.leader_id:
        return f"{voter.id}: active, epoch {quorum.leader_epoch}"
    lag = "?" if voter.lag is None else lag_step(voter.lag)
    heard = "no contact" if voter.silent_s is None else f"last contact {age_step(voter.silent_s)} s ago"
    return f"{voter.id}: lag {lag}, {heard}"
