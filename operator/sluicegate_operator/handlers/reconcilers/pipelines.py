"""The reconciler of a cluster's AuditPipelines: creates what runs them, and writes their status from the runs."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline, AuditPipelineStatus
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context.context import now
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.telling import write_one_of_many
from sluicegate_operator.engine.work_queue import Again, Retry, unless_refused
from sluicegate_operator.fleet.pods.landing_places import landers_of_all, results_of_all
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.process.term_metrics import PipelineMetrics
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.client.children import name_taken
from sluicegate_operator.kube.client.one_by_one import Refusals, concerns_all
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import (
    AUDIT_PIPELINE,
    BROKER_CLUSTER,
    CRON_JOB,
    EVENT,
    JOB,
    KUBEFLOW_SPARK_APPLICATION,
    POD,
    SCHEDULED_SPARK_APPLICATION,
    SPARK_APPLICATION,
    Kind,
    kind_of,
)
from sluicegate_operator.planning.pipelines.pipeline_runs import PipelineRun, RunState, pipeline_runs
from sluicegate_operator.planning.pipelines.pipeline_status import COMPLETE, PipelineTrouble, pipeline_status
from sluicegate_operator.planning.pipelines.pipelines import (
    PipelinePlan,
    due,
    is_run_of,
    outlived,
    pipeline_children,
    plan_pipeline,
)
from sluicegate_operator.planning.pipelines.schedule import CronSchedule
from sluicegate_operator.planning.rolls.pod_failures import events_of, why_not_made
from sluicegate_operator.planning.status.conditions import NAME_TAKEN, NOT_APPLIED, STALLED, not_applied_words
from sluicegate_operator.planning.status.paused import paused_status
from sluicegate_operator.resources.audit.audit_run import PIPELINE_LABEL, schedule_metadata
from sluicegate_operator.resources.audit.audit_spark import spark_application
from sluicegate_operator.resources.owner import why_not_ours

log = logging.getLogger(__name__)

NOT_FOUND = 404
CHANGING_RETRY = Retry(2.0, 30.0)
"""Retry while a run changes: only phases of pods are watched.

A Job reports its end a moment after its pod, and a pod reports later why it does not start.
"""
_SCHEDULED = (CRON_JOB, SCHEDULED_SPARK_APPLICATION)


class PipelineReconciler:
    """Keeps AuditPipelines running by their schedules. Raises KubeError for retriable errors."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key, [AUDIT_PIPELINE])
        refusals = Refusals()
        await context.report_unreadable(snapshot.unreadable_of(AUDIT_PIPELINE), refusals)
        cluster = snapshot.cluster
        if cluster is not None and cluster.spec.paused and not cluster.spec.is_external:
            for pipeline in snapshot.pipelines:
                fields = {"complete": pipeline.status.complete or "Unknown"}
                status = paused_status(pipeline, pipeline.status, now(), fields)
                await write_one_of_many(context, pipeline, status, refusals)
            context.figures.keep_pipelines(key, {pipeline.name for pipeline in snapshot.pipelines})
            return unless_refused(refusals, context.resync_s(cluster))
        plans = await self._plans(snapshot)
        figures: dict[str, PipelineMetrics] = {}
        tried = _Tried(cluster.metadata.uid if cluster is not None else "", figures, refusals)
        waits_s = [await self._keep(pipeline, plan, tried) for pipeline, plan in plans]
        if not tried.refused:
            self._refusals.ended(tried.cluster_uid)
        context.figures.note_pipelines(key, figures)
        if any(wait_s is None for wait_s in waits_s):
            return unless_refused(refusals, CHANGING_RETRY)
        if cluster is None or not waits_s:
            return unless_refused(refusals, None)
        # The operator does not watch SparkApplications, so it reads them at each resync.
        due_s = min(context.resync_s(cluster), *(wait_s for wait_s in waits_s if wait_s is not None))
        return unless_refused(refusals, due_s)

    async def _plans(self, snapshot: Snapshot) -> list[tuple[AuditPipeline, PipelinePlan]]:
        if not snapshot.pipelines:
            return []
        kube, moment = self._context.kube, now()
        if snapshot.cluster is None:
            # An AuditPipeline without its cluster begins no run, so the other objects are not read: a refused read must
            # not keep it running.
            return [(one, plan_pipeline(one, None, moment)) for one in snapshot.pipelines]
        others = await results_of_all(kube)
        clusters = await kube.cache.everywhere(BROKER_CLUSTER, BrokerCluster)
        landers = await landers_of_all(kube)
        return [
            (one, plan_pipeline(one, snapshot.cluster, moment, others, clusters, landers)) for one in snapshot.pipelines
        ]

    async def _keep(self, pipeline: AuditPipeline, plan: PipelinePlan, tried: "_Tried") -> float | None:
        """Reconcile one AuditPipeline, and add to `tried`. Returns the seconds until it is due again.

        None means soon: a run is about to begin or to end, or the API server refuses an object for now.
        """
        trouble: PipelineTrouble | None = None
        runs, scheduled, error = await self._try(pipeline, plan)
        if error is not None:
            tried.refused |= error.retriable
            if self._refusals.may_pass(tried.cluster_uid, error):
                # The status stays as it is, and so do the figures.
                tried.refusals.keep(error)
                tried.figures[pipeline.name] = _figures(pipeline.status)
                return None
            trouble = _trouble(error)
        noted = f"{scheduled:%Y-%m-%dT%H:%M:%SZ}" if scheduled is not None else None
        status = pipeline_status(pipeline, plan, runs, now(), trouble, noted)
        tried.figures[pipeline.name] = _figures(status)
        if await write_one_of_many(self._context, pipeline, status, tried.refusals):
            await self._post_events(pipeline, status)
        if trouble is not None and trouble.may_pass:
            return None
        if any((run.pod_ended and not run.ended) or run.state is RunState.PENDING or run.failure for run in runs or ()):
            return None
        return _until_next(plan.schedule, pipeline)

    async def _try(
        self, pipeline: AuditPipeline, plan: PipelinePlan
    ) -> tuple[tuple[PipelineRun, ...] | None, datetime | None, KubeError | None]:
        """Create or suspend the AuditPipeline's schedule, and then read its runs and begin the one that is due.

        Returns the runs, None if they are unknown; the time of the run that was begun, if any; and the first refusal. A
        refused read of the runs leaves the schedule neither running nor missing.
        """
        runs: tuple[PipelineRun, ...] | None = None
        scheduled: datetime | None = None
        refusals: list[KubeError] = []
        accepted = plan.places is not None and plan.schedule is not None
        try:
            await (self._make(pipeline, plan) if accepted else self._suspend(pipeline))
        except KubeError as error:
            if concerns_all(error):
                return None, None, error
            refusals.append(error)
        try:
            runs = await self._runs(pipeline)
            if accepted and not refusals:
                scheduled = await self._begin(pipeline, plan, runs)
            if scheduled is not None:
                runs = await self._runs(pipeline)
        except KubeError as error:
            refusals.append(error)
        return runs, scheduled, next(iter(refusals), None)

    async def _make(self, pipeline: AuditPipeline, plan: PipelinePlan) -> None:
        if plan.places is None:
            return
        children = pipeline_children(self._context.settings.images.of_pipeline(pipeline), plan.places)
        for child in children:
            await self._context.kube.apply(child)
        made = {kind_of(child) for child in children}
        for kind in _SCHEDULED:
            if kind not in made:
                await self._take_away(kind, schedule_metadata(pipeline))

    async def _suspend(self, pipeline: AuditPipeline) -> None:
        """Let an AuditPipeline that is not accepted any more begin no run: another object may have its place.

        A run that is under way continues.
        """
        kube, refusals, wanted = self._context.kube, Refusals(), schedule_metadata(pipeline)
        for kind in _SCHEDULED:
            with refusals.kept():
                found = await kube.get(kind, wanted["namespace"], wanted["name"])
                if found is None or why_not_ours(found, {"metadata": wanted}) or found["spec"].get("suspend"):
                    continue
                seen = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
                await kube.patch_metadata(kind, wanted["namespace"], wanted["name"], {}, seen, spec={"suspend": True})
        refusals.raise_first()

    async def _take_away(self, kind: Kind, metadata: Mapping[str, Any]) -> None:
        """Delete what ran the AuditPipeline before its mode changed, if it belongs to the operator."""
        found = await self._context.kube.get(kind, metadata["namespace"], metadata["name"])
        if found is not None and not why_not_ours(found, {"metadata": metadata}):
            meta = found["metadata"]
            # A user may have taken it over since it was read.
            seen = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
            await self._context.kube.delete(kind, meta["namespace"], meta["name"], **seen)

    async def _begin(self, pipeline: AuditPipeline, plan: PipelinePlan, runs: Sequence[PipelineRun]) -> datetime | None:
        """Create the run that is due for Apache's Spark operator.

        Returns its scheduled time, None if none was created.
        """
        if pipeline.spec.spark_operator != "apache" or plan.places is None or plan.schedule is None:
            return None
        kube = self._context.kube
        for old in outlived(pipeline, runs):
            meta = old["metadata"]
            seen = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
            await kube.delete(SPARK_APPLICATION, pipeline.namespace, meta["name"], **seen)
        time = due(pipeline, plan.schedule, runs, now())
        if time is None:
            return None
        application = spark_application(pipeline, plan.places, time)
        try:
            await kube.create(SPARK_APPLICATION, pipeline.namespace, application)
        except KubeConflictError:
            # The run was created by an operator that crashed before it wrote the status, or by another client.
            named = f"metadata.name={application['metadata']['name']}"
            for found in await kube.list(SPARK_APPLICATION, pipeline.namespace, field_selector=named):
                if why := why_not_ours(found, application):
                    raise name_taken(application, found, why) from None
                if is_run_of(pipeline, found) and not found["metadata"].get("deletionTimestamp"):
                    return time
            # The found object belongs to an earlier AuditPipeline or is being deleted: the run is created when that
            # object is gone.
            return None
        return time

    async def _runs(self, pipeline: AuditPipeline) -> tuple[PipelineRun, ...]:
        kind = {None: JOB, "apache": SPARK_APPLICATION, "kubeflow": KUBEFLOW_SPARK_APPLICATION}[
            pipeline.spec.spark_operator
        ]
        selector = f"{PIPELINE_LABEL}={pipeline.name}"
        try:
            owners = await self._context.kube.list(kind, pipeline.namespace, selector)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            # The Spark operator is not installed: creating a SparkApplication fails, and the status reports that.
            return ()
        schedule = await self._schedule(pipeline) if owners else None
        owners = [owner for owner in owners if is_run_of(pipeline, owner, schedule)]
        runs = pipeline_runs(owners, await self._context.kube.list(POD, pipeline.namespace, selector))
        return tuple([await self._with_failure(kind, pipeline, run) for run in runs])

    async def _schedule(self, pipeline: AuditPipeline) -> Mapping[str, Any] | None:
        """Return the object with the name of its schedule, by any creator; Apache's Spark operator has none."""
        kinds = {None: CRON_JOB, "kubeflow": SCHEDULED_SPARK_APPLICATION}
        kind = kinds.get(pipeline.spec.spark_operator)
        return await self._context.kube.get(kind, pipeline.namespace, pipeline.name) if kind is not None else None

    async def _with_failure(self, kind: Kind, pipeline: AuditPipeline, run: PipelineRun) -> PipelineRun:
        """Return the run, with the reason from Events of its Job or SparkApplication if it has no pod yet.

        A refused list of Events is logged: Events only add a reason to the status.
        """
        if run.state is not RunState.PENDING or run.has_pod:
            return run
        of = f"involvedObject.kind={kind.kind},involvedObject.name={run.name}"
        try:
            events = await self._context.kube.list(EVENT, pipeline.namespace, field_selector=of)
        except KubeError as error:
            if concerns_all(error):
                raise
            if self._context.is_news(str(error), "events of runs", pipeline.metadata.uid):
                log.warning("the Events of AuditPipeline %s are not read: %s", pipeline.name, error)
            return run
        uid = run.owner["metadata"]["uid"] if run.owner is not None else ""
        return replace(run, failure=why_not_made(events_of(uid, events)))

    async def _post_events(self, pipeline: AuditPipeline, status: AuditPipelineStatus) -> None:
        """Post Events for changes of the status.

        A Normal Event follows when a run succeeds for the first time. A Warning follows when a user must act, or when
        events start to be missing.
        """
        before = pipeline.status
        for type_, wanted in ((STALLED, "True"), (COMPLETE, "False")):
            is_, was = status.condition(type_), before.condition(type_)
            if (
                is_ is not None
                and is_.status == wanted
                and (was is None or (was.status, was.reason) != (wanted, is_.reason))
            ):
                await self._context.post(pipeline, "Warning", is_.reason, is_.message)
        ready, was_ready = status.condition("Ready"), before.condition("Ready")
        if ready is not None and ready.status == "True" and (was_ready is None or was_ready.reason != ready.reason):
            await self._context.post(pipeline, "Normal", ready.reason, ready.message)


@dataclass(slots=True)
class _Tried:
    """Findings of one reconcile of AuditPipelines. `refused`: the API server has refused something for now."""

    cluster_uid: str
    figures: dict[str, PipelineMetrics]
    refusals: Refusals
    refused: bool = False


def _figures(status: AuditPipelineStatus) -> PipelineMetrics:
    missing = None if status.missing is None else status.missing + (status.holes or 0)
    return PipelineMetrics(status.last_error is not None, missing)


def _until_next(schedule: CronSchedule | None, pipeline: AuditPipeline) -> float:
    """Return the seconds until the next run for Apache's Spark operator; other schedulers have their own clocks."""
    moment = now()
    following = schedule.next(moment) if schedule is not None and pipeline.spec.spark_operator == "apache" else None
    return max(1.0, (following - moment).total_seconds()) if following is not None else float("inf")


def _trouble(error: KubeError) -> PipelineTrouble:
    if isinstance(error, NameTakenError):
        return PipelineTrouble(NAME_TAKEN, str(error))
    if error.status == NOT_FOUND:
        return PipelineTrouble("SparkOperatorMissing", f"install the Spark operator that sparkOperator names: {error}")
    if error.retriable:
        return PipelineTrouble(NOT_APPLIED, not_applied_words(str(error)), may_pass=True)
    return PipelineTrouble("Refused", str(error))
