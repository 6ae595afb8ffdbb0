"""Every state that one of our objects can show, made by the operator's own planners from what they may see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

from sluicegate_operator.api import parse_resource
from sluicegate_operator.api.models.parts.broker_cluster_status import VolumesStatus
from sluicegate_operator.api.models.parts.broker_shares import BrokerShare, BrokerShares, ShareState
from sluicegate_operator.api.models.topic import ReplicasChange
from sluicegate_operator.api.schema.metadata import Status
from sluicegate_operator.planning.clusters.cluster_status import cluster_status
from sluicegate_operator.planning.external.external_status import (
    ConfigProgress,
    ExternalBroker,
    ExternalSeen,
    Quorum,
    Voter,
    external_status,
)
from sluicegate_operator.planning.layout.cluster_layout import Role, plan_cluster
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.planning.layout.volumes import VolumesSeen
from sluicegate_operator.planning.listeners.exposure import Address, Hiding
from sluicegate_operator.planning.listeners.listener_status import CertificateSeen, ServicesSeen, listener_status
from sluicegate_operator.planning.listeners.listeners import ListenerSeen
from sluicegate_operator.planning.observers.observer_status import PluginReports, observer_status
from sluicegate_operator.planning.observers.observers import ObserverReport, PluginOutcome, PluginVerdict
from sluicegate_operator.planning.pipelines.pipeline_runs import PipelineRun, RunState
from sluicegate_operator.planning.pipelines.pipeline_status import PipelineTrouble, pipeline_status
from sluicegate_operator.planning.pipelines.pipelines import PipelineOutcome, PipelinePlan
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.registrations.racks import RacksPlan, RackWait
from sluicegate_operator.planning.registrations.registrations import SeenBrokers, plan_registrations
from sluicegate_operator.planning.registrations.unknown_registrations import plan_unknown_registrations
from sluicegate_operator.planning.rolls.roll import (
    Done,
    Fence,
    PlannedRestart,
    Restart,
    RollStep,
    WaitForNodes,
    WaitReason,
)
from sluicegate_operator.planning.rolls.scale import ScaleReason, ScaleStep
from sluicegate_operator.planning.rolls.start_failures import FailingNode, NodesNotStarting, StartFailure
from sluicegate_operator.planning.status.conditions import NAME_TAKEN
from sluicegate_operator.planning.status.unreadable import unreadable_status
from sluicegate_operator.planning.topics.reassignment import ReplicasPlan
from sluicegate_operator.planning.topics.topic_status import TopicTrouble, topic_status
from sluicegate_operator.planning.topics.topics import ACCEPTED, ObservedTopic, TopicOutcome, TopicVerdict
from sluicegate_operator.planning.users.user_status import UserTrouble, user_status
from sluicegate_operator.quotas.plan import plan_quotas
from sluicegate_operator.quotas.status import Enforcement, quota_status
from tests.support.manifests.bad_manifests import Json, cluster, external, listener, observer, quota, topic
from tests.support.manifests.pipeline_manifests import pipeline
from tests.support.manifests.quota_manifests import of_pods
from tests.support.manifests.user_manifests import kafka_user
from tests.support.worlds.observed_clusters import observed_cluster
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GENERATION = 3
RUNNING: dict[str, Any] = {"brokers_expected": 3, "brokers_ready": 3, "controllers_expected": 1, "controllers_ready": 1}


@dataclass(frozen=True, slots=True)
class Shown:
    """An object as the API server has it once the operator has written its status."""

    document: Json

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    def condition(self, type_: str) -> Json:
        found: Json = next(one for one in self.document["status"]["conditions"] if one["type"] == type_)
        return found

    @property
    def reason(self) -> str:
        return str(self.condition("Ready")["reason"])


def shown_statuses() -> list[Shown]:
    """All kinds, and for each kind all cases that its planner distinguishes, alone and together."""
    return [
        *_clusters(),
        *_external_clusters(),
        *_listeners(),
        *_quotas(),
        *_topics(),
        *_users(),
        *_observers(),
        *_pipelines(),
        *_registrations(),
    ]


def unseen(document: Json) -> Shown:
    """The object as applied, with the CRD's default status of the API server."""
    return Shown(_stored(document) | {"status": {"observedGeneration": -1}})


def unreadable(document: Json) -> Shown:
    stored = _stored(document)
    return Shown(stored | {"status": unreadable_status(stored, "spec.x is of another version", NOW)})


def _stored(document: Json, **metadata: Any) -> Json:
    meta = {"namespace": "default", "uid": "u", "generation": GENERATION, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return document | {"metadata": document["metadata"] | meta | metadata}


def _parsed(document: Json, **metadata: Any) -> Any:
    return parse_resource(_stored(document, **metadata))


def _shown(document: Json, status: Status) -> Shown:
    return Shown(_stored(document) | {"status": status.manifest()})


_RESTARTED = PlannedRestart("shop-brokers-0", Role.BROKER, 0, (RestartReason(ReasonKind.IMAGE_CHANGED, "a to b"),))
_STEPS: tuple[RollStep | None, ...] = (
    None,
    Done(),
    Fence((FenceOrder(1, 4, "the pod of broker 1 does not exist any more"),)),
    Restart((_RESTARTED,)),
    *(WaitForNodes(reason, "a sentence", ("shop-brokers-0",)) for reason in WaitReason),
)
_NODES: tuple[Json, ...] = (
    {},
    {"brokers_ready": 1},
    {"brokers_ready": 0, "controllers_ready": 0},
    {"brokers_ready": 2, "away": "broker 1 is away: node w1 is NotReady"},
    *(
        {"not_starting": NodesNotStarting(FailingNode("n", "u", StartFailure("CrashLoopBackOff", "why")), lasts)}
        for lasts in (False, True)
    ),
    {"racks": RacksPlan(2, waiting=(RackWait("n", "NodeLabelMissing", "no label"),))},
    {"racks": RacksPlan(2, waiting=(RackWait("n", "NotScheduled", "no node", needs_a_person=False),))},
    {"name_taken": "a Service has the name"},
    {"claims_taken": "the claims are another cluster's"},
    {"refusal": "422: no"},
    {"unreadable": "ObserverPlugin x cannot be read"},
    {"silence": "no active controller has answered for 60 s: controller 1000: refused"},
)
_SETTLING: tuple[Json, ...] = (
    {},
    {"followed_generation": 1},
    {"unreachable": {1: "timed out"}},
    {"config_refused": "INVALID_CONFIG"},
    {"config_lagging": {1: "a is not b"}},
    {"volumes": VolumesSeen(VolumesStatus(brokers="2Gi", growing=("data-shop-brokers-0: Resizing",)))},
    {"volumes": VolumesSeen(VolumesStatus(brokers="1Gi"), "data-shop-brokers-0 stays at 1Gi")},
    *({"scale": ScaleStep(3, reason, "a sentence")} for reason in ScaleReason),
)


def _clusters() -> Iterator[Shown]:
    for paused, roll, nodes, settling in product((False, True), _STEPS, _NODES, _SETTLING):
        document = cluster(paused=True) if paused else cluster()
        seen = observed_cluster(**(RUNNING | nodes | settling), roll=roll)
        yield _shown(document, cluster_status(_parsed(document), seen, NOW))


def _external_clusters() -> Iterator[Shown]:
    brokers = tuple(ExternalBroker(number, "10.0.0.1", 9092 + number) for number in range(3))
    voters = (Voter(100, 0, 0.0), Voter(101, 3, 0.2))
    seen = (
        ExternalSeen(unseen="broker kafka:9092: cannot connect"),
        ExternalSeen("another"),
        ExternalSeen("c", governed="BrokerCluster default/older governs it already"),
        ExternalSeen("c", brokers, Quorum(100, 4, voters)),
        ExternalSeen("c", brokers, Quorum(-1, 4, (Voter(100, None, None), Voter(101, 0, 60.0)))),
        ExternalSeen("c", brokers, no_quorum="UNSUPPORTED_VERSION"),
        ExternalSeen("c", (*brokers[:2], replace(brokers[2], fenced=True))),
        ExternalSeen("c", (*brokers[:2], replace(brokers[2], silent="timed out"))),
    )
    configs = (ConfigProgress(), ConfigProgress({1: "a is not b"}), ConfigProgress(refused="num.partitions"))
    for paused, one, config in product((False, True), seen, configs):
        document = external(paused=paused) | {"status": {"clusterId": "c"}}
        yield _shown(document, external_status(_parsed(document), one, config, NOW))


def _listeners() -> Iterator[Shown]:
    one = _parsed(listener())
    layouts = (
        None,
        plan_cluster(_parsed(cluster()), [one]),
        plan_cluster(_parsed(cluster()), [one, _parsed(listener("older"), creationTimestamp="2020-01-01T00:00:00Z")]),
    )
    told = {number: Address("10.0.0.1", 9094 + number) for number in range(3)}
    seen = (
        ListenerSeen(told),
        ListenerSeen(told, waits=("broker 1 waits for a node",)),
        ListenerSeen({0: told[0]}),
        ListenerSeen(lacking=(0,)),
        ListenerSeen(lacking=(0,), refused={0: "INVALID_REQUEST"}),
        ListenerSeen(unknown=(2,)),
        ListenerSeen({0: told[0]}, restarts=(1, 2)),
    )
    services = (
        ServicesSeen(),
        ServicesSeen(name_taken="Service x is not ours"),
        ServicesSeen(refusal="422"),
        ServicesSeen(left_over="403 deletion protected"),
        ServicesSeen(left_over="failed calling webhook", left_over_may_pass=True),
        ServicesSeen(hiding=Hiding(hidden=None, reason="BalancerMayBeProxy", message="it may hide addresses")),
    )
    for layout, what, made in product(layouts, seen, services):
        yield _shown(listener(), listener_status(one, layout, what, NOW, made))
    secured = _parsed(listener(tls={"secretName": "shop-tls"}))
    for problem in (CertificateSeen("", "Secret shop-tls does not exist", "SecretMissing"), CertificateSeen("mine")):
        status = listener_status(secured, layouts[1], ListenerSeen(), NOW, certificate=problem)
        yield _shown(listener(tls={"secretName": "shop-tls"}), status)


def _quotas() -> Iterator[Shown]:
    rates: Json = {"maxConnectionCreationRate": 50}
    enforcements = (
        Enforcement(),
        Enforcement((0, 1)),
        Enforcement((0, 1), (1,)),
        Enforcement((0, 1), (1,), unreachable=(1,)),
        Enforcement((0, 1), (0, 1), error="INVALID_REQUEST", refused=True),
        *(
            Enforcement((0, 1), shares=BrokerShares(brokers=[BrokerShare(broker_id=0, state=state)]))
            for state in ShareState
        ),
    )
    stricter = _parsed(quota(maxConnectionCreationRate=5), name="stricter")
    here, listening = _parsed(cluster()), [_parsed(listener())]
    cases = (
        (quota(**rates), here, ()),
        (quota(**rates), None, ()),
        (quota(target={"listener": "OTHER"}, **rates), here, ()),
        (quota(**rates), here, (stricter,)),
        (quota(maxConnections=9, **rates), here, (stricter,)),
        (quota(scope="Cluster", **rates), here, ()),
        (quota(scope="Cluster", **rates), _parsed(external()), ()),
    )
    for (document, its_cluster, others), enforcement in product(cases, enforcements):
        one = _parsed(document)
        plan = plan_quotas(its_cluster, listening, [one, *others])
        yield _shown(document, quota_status(one, plan.of[one.name], enforcement, NOW))
    yield from _quotas_on_pods()


def _quotas_on_pods() -> Iterator[Shown]:
    shop, listening = _parsed(cluster()), [_parsed(listener())]
    for mode, known, unseen, lagging in product(("Enforce", "Observe"), (False, True), ("", "why"), ((), (1,))):
        document = quota(of_pods(), maxConnections=9, mode=mode)
        one, planner = _parsed(document), PlannedQuotas()
        planner.select({one.name: {"10.0.0.1": 7.0}} if known else {})
        for _ in planner.update(shop, listening, [one], NOW):
            pass
        enforcement = Enforcement((0, 1), lagging, pods_unseen=unseen)
        yield _shown(document, quota_status(one, planner.plan.of[one.name], enforcement, NOW))


def _topics() -> Iterator[Shown]:
    document = topic(partitions=6, replicas=3)
    troubles = (
        None,
        TopicTrouble("WaitingForBrokers", "none"),
        TopicTrouble("Refused", "no"),
        TopicTrouble("Failed", "timed out"),
        TopicTrouble("Applying", "soon"),
    )
    seen = (
        None,
        *(ObservedTopic("id", count, copies) for count in (3, 6, 9) for copies in (1, 3)),
    )
    for outcome, trouble, observed in product(TopicOutcome, troubles, seen):
        one = _parsed(document)
        yield _shown(document, topic_status(one, TopicVerdict(outcome, "why"), observed, NOW, trouble))
    change = ReplicasChange(target_replicas=3, partitions="2/6", moving=4)
    too_few = TopicVerdict(TopicOutcome.TOO_FEW_BROKERS, "why")
    for plan in (ReplicasPlan(change=change), ReplicasPlan(change=change, verdict=too_few)):
        one, observed = _parsed(document), ObservedTopic("id", 6, 1)
        yield _shown(document, topic_status(one, ACCEPTED, observed, NOW, None, plan))


def _users() -> Iterator[Shown]:
    document = kafka_user()
    troubles = (
        None,
        UserTrouble("WaitingForBrokers", "none"),
        UserTrouble("Failed", "timed out"),
        UserTrouble("Refused", "no", stuck=True),
        UserTrouble("NoAuthorizer", "configure one", stuck=True),
    )
    for trouble, others in product(troubles, (0, 2)):
        yield _shown(document, user_status(_parsed(document), NOW, trouble, others))


def _observers() -> Iterator[Shown]:
    document = observer()
    reports = (
        PluginReports(),
        PluginReports((0,), refused="INVALID_CONFIG"),
        PluginReports((0, 1), {}),
        *(
            PluginReports((0,), {0: ObserverReport(state, "why")}, rolling=rolling)
            for state in ("Failed", "Suspended", "Unknown", "Loading", "Loaded", "NeverHeardOf")
            for rolling in (False, True)
        ),
    )
    for outcome, report in product(PluginOutcome, reports):
        one = _parsed(document)
        yield _shown(document, observer_status(one, PluginVerdict("orders", outcome, "why"), report, NOW))


def _pipelines() -> Iterator[Shown]:
    def run(state: RunState, hour: int) -> PipelineRun:
        at = f"2026-01-01T0{hour}:00:00Z"
        finished = at if state in (RunState.SUCCEEDED, RunState.FAILED) else None
        return PipelineRun(f"daily-{hour}", state, at, at, finished=finished)

    def waiting(reason: str) -> PipelineRun:
        return replace(run(RunState.PENDING, 1), failure=StartFailure(reason, "why"))

    runs: Sequence[tuple[PipelineRun, ...]] = (
        (),
        *((run(state, 1),) for state in RunState),
        *((run(RunState.FAILED, 1), run(state, 2)) for state in RunState),
        *((waiting(reason),) for reason in ("Unschedulable", "ErrImagePull")),
    )
    troubles = (None, *(PipelineTrouble(reason, "why") for reason in (NAME_TAKEN, "SparkOperatorMissing", "Refused")))
    for outcome, made, trouble, suspend in product(PipelineOutcome, runs, troubles, (False, True)):
        document = pipeline(suspend=True) if suspend else pipeline()
        one = _parsed(document)
        yield _shown(document, pipeline_status(one, PipelinePlan(outcome, "why"), made, NOW, trouble))


def _registrations() -> Iterator[Shown]:
    broker = BrokerOverview(2, 41, "6264", BrokerState.ONLINE, replicas=7)
    for state, behind in product(BrokerState, (0, 2)):
        seen = SeenBrokers(ClusterOverview("c", 1000, 1, 9, (replace(broker, state=state, out_of_sync=behind),)), ())
        [plan] = plan_registrations(_parsed(cluster()), (), seen, NOW).registrations
        meta = plan.manifest["metadata"] | {"generation": 1}
        yield Shown({**plan.manifest, "metadata": meta, "status": plan.status.manifest()})
        known = _parsed({**plan.manifest, "metadata": meta, "status": plan.status.manifest()})
        [plan] = plan_unknown_registrations(_parsed(cluster()), [known], "why", NOW).registrations
        meta = meta | {"generation": known.metadata.generation}
        yield Shown({**plan.manifest, "metadata": meta, "status": plan.status.manifest()})
