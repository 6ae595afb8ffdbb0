"""The status of an AuditPipeline, derived from its plan and the results of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.models.audit_pipeline import (
    PROGRESS_MAX,
    AuditPipeline,
    AuditPipelineStatus,
    AuditRun,
    AuditWindow,
)
from sluicegate_operator.planning.pipelines.pipeline_runs import PipelineRun, RunState
from sluicegate_operator.planning.pipelines.pipelines import PipelineOutcome, PipelinePlan
from sluicegate_operator.planning.pipelines.run_summary import Summary
from sluicegate_operator.planning.rolls.start_failures import is_stuck
from sluicegate_operator.planning.status.conditions import (
    Finding,
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)

COMPLETE = "Complete"
RUN_FAILED = "RunFailed"
_BEFORE_AN_END = (RunState.PENDING, RunState.RUNNING)
_UNENDED = (*_BEFORE_AN_END, RunState.RETRYING)


@dataclass(frozen=True, slots=True)
class PipelineTrouble:
    """The reason why the run's objects cannot be created. `reason` is that of the conditions.

    Users must act unless `may_pass` is set.
    """

    reason: str
    message: str
    may_pass: bool = False


def pipeline_status(
    pipeline: AuditPipeline,
    plan: PipelinePlan,
    runs: Sequence[PipelineRun] | None,
    now: datetime,
    trouble: PipelineTrouble | None = None,
    scheduled: str | None = None,
) -> AuditPipelineStatus:
    """Return the new status of an AuditPipeline. Results of earlier runs stay when their pods are gone.

    `runs` is None if they cannot be listed: the old status of runs stays then. `scheduled` is the newest time of the
    schedule for which the operator itself has created a run.
    """
    status = _updated(pipeline, plan, runs)
    waiting = _waiting(plan, runs or (), now) if trouble is None else None
    progress = waiting or _progress(pipeline, plan, status, trouble)
    old = pipeline.status
    return status.model_copy(
        update={
            "observed_generation": observed_generation(pipeline, old, progress),
            "conditions": conditions(pipeline, old, [*progress.findings, _completeness(status)], now),
            "last_schedule_time": scheduled or old.last_schedule_time,
        }
    )


def _updated(pipeline: AuditPipeline, plan: PipelinePlan, runs: Sequence[PipelineRun] | None) -> AuditPipelineStatus:
    """Return the old status updated with the present state of the runs."""
    old = pipeline.status
    update: dict[str, object] = {"complete": old.complete or "Unknown"}
    if runs is None:
        return old.model_copy(update=update)
    good = next((run for run in reversed(runs) if run.state is RunState.SUCCEEDED), None)
    if good is not None and good.finished != old.last_success_time:
        summary = good.summary or Summary()
        window = (
            AuditWindow.model_validate({"from": summary.window[0], "to": summary.window[1]}) if summary.window else None
        )
        update |= {
            "last_success_time": good.finished,
            "last_window": window,
            "events": summary.events,
            "rows": dict(summary.rows) or None,
            "missing": summary.missing,
            "holes": summary.holes,
            "quarantined_files": summary.quarantined_files,
            "complete": {True: "True", False: "False", None: "Unknown"}[summary.complete],
            "took_seconds": summary.took_s,
            "report_location": _report(pipeline, plan),
        }
    told = old.model_copy(update=update)
    if not runs:
        return told.model_copy(update={"progress": None, **_deleted(old.last_run)})
    newest = runs[-1]
    ended = next((run for run in reversed(runs) if run.state not in _BEFORE_AN_END), None)
    return told.model_copy(
        update={
            "last_run": AuditRun(
                name=newest.name, state=newest.state.value, started=newest.started, finished=newest.finished
            ),
            "last_error": (ended.why or "the run reported no reason")
            if ended and ended.state is not RunState.SUCCEEDED
            else None,
            "progress": _going_on(newest, told.took_seconds),
        }
    )


def _deleted(last: AuditRun | None) -> dict[str, object]:
    """Return the status fields if the last run's Job or SparkApplication is gone. A run that has ended stays."""
    if last is None or last.state not in _UNENDED:
        return {}
    # The error belongs to an earlier attempt; the outcome of the run is unknown.
    return {"last_run": last.model_copy(update={"state": RunState.DELETED.value}), "last_error": None}


def _report(pipeline: AuditPipeline, plan: PipelinePlan) -> str | None:
    if not pipeline.spec.report or plan.places is None:
        return None
    return plan.places.report_location(pipeline.name)


def _going_on(run: PipelineRun, took_s: float | None) -> str | None:
    text = _state_of(run, took_s)
    return None if text is None else text[:PROGRESS_MAX]


def _state_of(run: PipelineRun, took_s: float | None) -> str | None:
    before = f"; the last successful run took {took_s:.0f} s" if took_s is not None else ""
    waits = f"; the run's next pod does not start: {run.failure}" if run.failure is not None else ""
    if run.state is RunState.PENDING:
        return f"created at {run.made}; its pod has not started" + (f": {run.failure}" if run.failure else "")
    if run.state is RunState.RUNNING:
        return f"running since {run.started or run.made}{before}"
    if run.state is RunState.RETRYING:
        return f"started at {run.started or run.made}, failed, and is retried{waits}{before}"
    return None


def _waiting(plan: PipelinePlan, runs: Sequence[PipelineRun], now: datetime) -> Progress | None:
    """Return the progress if it is known why the pod of the newest run does not start."""
    newest = runs[-1] if runs else None
    if plan.outcome is not PipelineOutcome.ACCEPTED or newest is None or newest.ended or newest.failure is None:
        return None
    lasting_s = (now - datetime.fromisoformat(newest.made)).total_seconds()
    say = stalled if is_stuck(newest.failure, lasting_s) else working
    return say(newest.failure.reason, f"{newest.name} does not start: {newest.failure}")


def _progress(
    pipeline: AuditPipeline, plan: PipelinePlan, status: AuditPipelineStatus, trouble: PipelineTrouble | None
) -> Progress:
    spec, run = pipeline.spec, status.last_run
    if plan.outcome is not PipelineOutcome.ACCEPTED:
        return stalled(plan.outcome, plan.message)
    if trouble is not None:
        return (working if trouble.may_pass else stalled)(trouble.reason, trouble.message)
    if status.last_error is not None and run is not None:
        if run.state != RunState.FAILED:
            return working("Retrying", f"{run.name} is running after a failed attempt: {status.last_error}")
        return stalled(RUN_FAILED, f"{run.name} failed: {status.last_error}; {_another(pipeline)}")
    if spec.suspend:
        return ready("Suspended", "suspend is true: no run is started")
    if status.last_success_time is None:
        return ready("Scheduled", f"no run has succeeded yet; the schedule is {spec.schedule}, in UTC")
    return ready("RunSucceeded", _sentence(status))


def _another(pipeline: AuditPipeline) -> str:
    if pipeline.spec.mode != "Job":
        return "the next run starts by the schedule"
    name = pipeline.name
    return f"the next run starts by the schedule, or now with kubectl create job --from=cronjob/{name} {name}-by-hand"


def _sentence(status: AuditPipelineStatus) -> str:
    window = status.last_window
    days = f"days {window.first} to {window.last}" if window is not None else "unknown days"
    events = f"{status.events} events" if status.events is not None else "an unknown number of events"
    return f"{days}: {events}; {_missing(status)}"


def _missing(status: AuditPipelineStatus) -> str:
    if status.complete == "Unknown":
        return "the run did not report whether events are missing"
    if status.complete == "True":
        return "no events are missing"
    return (
        f"{status.missing} events are missing, {status.holes} more are missing without a gap event,"
        f" {status.quarantined_files} files were quarantined; see the beginning of the report"
    )


def _completeness(status: AuditPipelineStatus) -> Finding:
    is_true = {"True": True, "False": False}.get(status.complete)
    reason = {True: "NothingMissing", False: "Incomplete", None: "NotKnown"}[is_true]
    return Finding(COMPLETE, is_true, reason, _missing(status))
