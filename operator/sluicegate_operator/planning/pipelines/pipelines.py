"""Plan the objects of an AuditPipeline, and the runs that Apache's Spark operator gets. Pure.

Jobs and kubeflow's Spark operator have their own schedules. Apache's operator has none, so this operator creates one
SparkApplication at each time of the schedule. That time is part of its name, so it cannot be created twice (decision
22).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline, AuditPlace
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.planning.layout.audit_places import Lander, Results, why_results_in_landing, why_results_taken
from sluicegate_operator.planning.layout.cluster_layout import cluster_id
from sluicegate_operator.planning.layout.store_places import store_place
from sluicegate_operator.planning.pipelines.pipeline_runs import PipelineRun
from sluicegate_operator.planning.pipelines.schedule import CronSchedule, ScheduleError, parse_schedule
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.resources.audit.audit_files import audit_files
from sluicegate_operator.resources.audit.audit_job import cron_job
from sluicegate_operator.resources.audit.audit_run import AuditPlaces, run_labels
from sluicegate_operator.resources.audit.audit_spark import KEPT, scheduled_spark_application
from sluicegate_operator.resources.owner import controller_of, is_controlled_by

Json = dict[str, Any]

_SCHEDULES = (("batch", "CronJob"), ("sparkoperator.k8s.io", "ScheduledSparkApplication"))
"""API group and kind of the objects that create runs."""
CLUSTER_NAMES_MAX = 50
"""Maximum number of clusters whose names a run gets."""


class PipelineOutcome(StrEnum):
    """The outcome for an AuditPipeline. It is also the reason in the pipeline's conditions."""

    ACCEPTED = "Accepted"
    CLUSTER_MISSING = "ClusterMissing"
    SOURCE_MISSING = "SourceMissing"
    NEVER_RUNS = "NeverRuns"
    RESULTS_IN_SOURCE = "ResultsInSource"
    RESULTS_TAKEN = "Conflicted"


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The plan for an AuditPipeline. `places` and `schedule` are set if the outcome is ACCEPTED."""

    outcome: PipelineOutcome
    message: str = ""
    places: AuditPlaces | None = None
    schedule: CronSchedule | None = None


def plan_pipeline(
    pipeline: AuditPipeline,
    cluster: BrokerCluster | None,
    now: datetime,
    others: Iterable[Results] = (),
    clusters: Iterable[BrokerCluster] = (),
    landers: Iterable[Lander] = (),
) -> PipelinePlan:
    """Plan the objects of an AuditPipeline.

    `others`, `clusters` and `landers` are all that the operator knows.

    They decide which object may write to a place.
    """
    spec, name = pipeline.spec, pipeline.spec.cluster_ref.name
    if cluster is None or cluster.spec.is_external:
        return PipelinePlan(PipelineOutcome.CLUSTER_MISSING, cluster_missing_words(pipeline, bundled=True))
    try:
        schedule = parse_schedule(spec.schedule)
    except ScheduleError as error:
        return PipelinePlan(PipelineOutcome.NEVER_RUNS, str(error))
    if schedule.next(now) is None:
        message = f"schedule {spec.schedule} never runs, because no month has such a day: correct the schedule"
        return PipelinePlan(PipelineOutcome.NEVER_RUNS, message)
    landing = cluster.spec.landing
    source = spec.source
    if source is None and landing is not None:
        source = AuditPlace(uri=landing.uri, claim_name=landing.claim_name)
    if source is None:
        message = f"the audit log of BrokerCluster {name} is not landed: set audit.landing there, or set source here"
        return PipelinePlan(PipelineOutcome.SOURCE_MISSING, message)
    if message := why_results_in_landing(pipeline, cluster, clusters, source.uri, landers):
        return PipelinePlan(PipelineOutcome.RESULTS_IN_SOURCE, message)
    if message := why_results_taken(pipeline, others):
        return PipelinePlan(PipelineOutcome.RESULTS_TAKEN, message)
    secret = spec.secret_name or (landing.secret_name if landing is not None else None)
    places = AuditPlaces(name, source, spec.results, secret, _cluster_names(cluster, clusters, source))
    return PipelinePlan(PipelineOutcome.ACCEPTED, places=places, schedule=schedule)


def _cluster_names(
    cluster: BrokerCluster, clusters: Iterable[BrokerCluster], source: AuditPlace
) -> list[tuple[str, str]]:
    """Return the IDs and names of the cluster, and of others whose audit logs land in the same object store."""
    beside = {f"{each.namespace}/{each.name}": each for each in clusters if _lands_in(each, source.uri)}
    beside.pop(f"{cluster.namespace}/{cluster.name}", None)
    named = [(cluster_id(each), name) for name, each in sorted(beside.items())]
    return [(cluster_id(cluster), f"{cluster.namespace}/{cluster.name}"), *named][:CLUSTER_NAMES_MAX]


def _lands_in(cluster: BrokerCluster, uri: str | None) -> bool:
    landing = cluster.spec.landing
    if uri is None or landing is None or landing.uri is None or cluster.spec.is_external:
        return False
    return store_place(landing.uri) == store_place(uri)


def pipeline_children(pipeline: AuditPipeline, places: AuditPlaces) -> list[Json]:
    """Return all children of an AuditPipeline but Apache's SparkApplications, in the order in which to apply them."""
    children = [audit_files(pipeline)]
    if pipeline.spec.mode == "Job":
        children.append(cron_job(pipeline, places))
    elif pipeline.spec.spark_operator == "kubeflow":
        children.append(scheduled_spark_application(pipeline, places))
    return children


def is_run_of(pipeline: AuditPipeline, owner: Mapping[str, Any], schedule: Mapping[str, Any] | None = None) -> bool:
    """Return whether a Job or SparkApplication with the label of the AuditPipeline is its run.

    A run of Apache's Spark operator is controlled by the AuditPipeline. Any other run is created by the schedule object
    of its name, or by a user from that object's template, with all of its labels. `schedule` is the object that has
    that name now, None if there is none. An earlier AuditPipeline of the name may have left runs behind: these are
    older than this one, or belong to another schedule object.
    """
    if pipeline.spec.spark_operator == "apache":
        return is_controlled_by(owner, pipeline.metadata.uid)
    if _is_older(owner, pipeline):
        return False
    controller = controller_of(owner)
    if controller is None:
        return run_labels(pipeline).items() <= (owner["metadata"].get("labels") or {}).items()
    if controller not in [(*kind, pipeline.name) for kind in _SCHEDULES]:
        return False
    if schedule is None:
        return True
    ours = is_controlled_by(schedule, pipeline.metadata.uid)
    return ours and is_controlled_by(owner, schedule["metadata"]["uid"])


def _is_older(owner: Mapping[str, Any], pipeline: AuditPipeline) -> bool:
    made, born = owner["metadata"].get("creationTimestamp"), pipeline.metadata.creation_timestamp
    return bool(made) and born is not None and datetime.fromisoformat(made) < born


def due(pipeline: AuditPipeline, schedule: CronSchedule, runs: Sequence[PipelineRun], now: datetime) -> datetime | None:
    """Return the time of the schedule for which a SparkApplication is to be created now, or None.

    After missed times, only the last one is made up for. No run is created while another one is unfinished.
    """
    if pipeline.spec.suspend or any(not run.ended for run in runs):
        return None
    return schedule.last(last_scheduled(pipeline), now)


def last_scheduled(pipeline: AuditPipeline) -> datetime:
    """Return the last handled time of the schedule, or the creation of the AuditPipeline.

    No time before it is due.
    """
    noted = pipeline.status.last_schedule_time
    if noted:
        return datetime.fromisoformat(noted)
    created = pipeline.metadata.creation_timestamp
    return created if created is not None else datetime.min.replace(tzinfo=UTC)


def outlived(pipeline: AuditPipeline, runs: Sequence[PipelineRun]) -> tuple[Mapping[str, Any], ...]:
    """Return the operator's SparkApplications to delete: all ended ones but the newest `KEPT`."""
    uid = pipeline.metadata.uid
    ended = [run.owner for run in runs if run.ended and run.owner is not None and is_controlled_by(run.owner, uid)]
    return tuple(ended[: max(0, len(ended) - KEPT)])
