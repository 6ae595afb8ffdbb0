"""The runs of an AuditPipeline, derived from its Jobs or SparkApplications and their pods. Pure.

The owner decides a run's state, because it may retry the run. The pod has the cause of a failure and the run's results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluicegate_operator.planning.pipelines.run_summary import LINE_MAX, Summary, last_line, read_summary
from sluicegate_operator.planning.rolls.pod_failures import OOM_KILLED, pod_failure
from sluicegate_operator.planning.rolls.start_failures import StartFailure
from sluicegate_operator.resources.audit.audit_spark import RUN_LABEL
from sluicegate_operator.resources.owner import has_controller, is_controlled_by

Json = Mapping[str, Any]

_OWNER_LABELS = ("batch.kubernetes.io/job-name", RUN_LABEL, "sparkoperator.k8s.io/app-name")
"""Labels of a pod that name its Job, or its SparkApplication of either Spark operator."""
_APACHE_FAILURES = frozenset(
    {
        "DriverStartTimedOut",
        "ExecutorsStartTimedOut",
        "DriverReadyTimedOut",
        "SchedulingFailure",
        "DriverEvicted",
        "Failed",
    }
)
_APACHE_ENDS = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})
_KUBEFLOW_ENDS = {"COMPLETED": True, "FAILED": False}
_KUBEFLOW_RUNS = frozenset({"RUNNING", "SUCCEEDING", "FAILING"})
_APACHE_RUNS = frozenset({"DriverReady", "InitializedBelowThresholdExecutors", "RunningHealthy"})
_APACHE_RUNS |= {"RunningWithBelowThresholdExecutors"}
"""States that Spark operators report for an application whose driver has started."""


class RunState(StrEnum):
    """The state of one run of an audit pipeline.

    - PENDING: its container has not started.
    - RETRYING: it failed, and its owner retries it.
    - DELETED: its Job or SparkApplication was deleted before the run ended. Only a status has this state.
    """

    PENDING = "Pending"
    RUNNING = "Running"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """One run of an audit pipeline. Times are strings of the API server.

    - `made`: when its Job or SparkApplication was created.
    - `started`: when its container started, None before.
    - `failure`: why the container of its newest pod does not start, if that is known.
    - `has_pod`: whether it has a pod.
    - `summary`: the summary of its newest pod that has ended; None without a readable one.
    - `why`: one line about the failure, if it failed.
    """

    name: str
    state: RunState
    made: str
    started: str | None = None
    failure: StartFailure | None = None
    has_pod: bool = False
    finished: str | None = None
    summary: Summary | None = None
    why: str = ""
    owner: Json | None = None
    pod_ended: bool = False
    """Whether the newest pod of the run has ended. The pod's owner may not have observed that yet."""

    @property
    def ended(self) -> bool:
        return self.state in (RunState.SUCCEEDED, RunState.FAILED)


@dataclass(frozen=True, slots=True)
class _End:
    code: int
    at: str
    said: str
    how: str


def pipeline_runs(owners: Sequence[Json], pods: Sequence[Json]) -> tuple[PipelineRun, ...]:
    """Return the runs of a pipeline, oldest first.

    Pods of other owners are left out, also those of an earlier owner with the same name.
    """
    of: dict[str, list[Json]] = {}
    for pod in sorted(pods, key=_made):
        has = pod["metadata"].get("labels") or {}
        name = next((has[label] for label in _OWNER_LABELS if label in has), "")
        of.setdefault(name, []).append(pod)
    return tuple(
        _run(owner, [pod for pod in of.get(owner["metadata"]["name"], []) if not _is_of_another(pod, owner)])
        for owner in sorted(owners, key=_made)
    )


def _is_of_another(pod: Json, owner: Json) -> bool:
    """Return whether another object controls the pod, or an owner of this kind and name has another uid.

    Other clients may copy the labels of a run's pod.
    """
    meta = owner["metadata"]
    if has_controller(pod) and not is_controlled_by(pod, meta.get("uid") or ""):
        return True
    same = [
        reference["uid"]
        for reference in pod["metadata"].get("ownerReferences") or ()
        if (reference["kind"], reference["name"]) == (owner["kind"], meta["name"])
    ]
    return bool(same) and meta.get("uid") not in same


def _made(item: Json) -> tuple[str, str]:
    return item["metadata"].get("creationTimestamp") or "", item["metadata"]["name"]


def _run(owner: Json, pods: Sequence[Json]) -> PipelineRun:
    ends = [_end(pod) for pod in pods]
    newest = ends[-1] if ends else None
    well, finished, why = _outcome(owner)
    last = next((end for end in reversed(ends) if end is not None), None)
    made, started = _made(owner)[0], next(filter(None, map(_began, pods)), None)
    waits = bool(pods) and newest is None and _began(pods[-1]) is None
    if well is None:
        state = _state_of_unfinished(owner, newest or (last if waits else None), began=started is not None)
        finished = None
    else:
        state = RunState.SUCCEEDED if well else RunState.FAILED
        started = started or made
        finished = finished or (last.at if last else None) or started
    summary = read_summary(last.said) if last else None
    if state is RunState.SUCCEEDED or last is None:
        reason = why
    elif last.how.startswith(OOM_KILLED):
        reason = f"{last.how}: raise spec.resources.limits.memory"
    elif summary is not None:
        # If the run's summary reports success, a step after the results has failed, for example the report.
        reason = summary.error or f"the results were written, but a later step failed: {last.how}"
    else:
        reason = last_line(last.said) or last.how
    return PipelineRun(
        owner["metadata"]["name"],
        state,
        made,
        started,
        pod_failure(pods[-1].get("status") or {}) if waits else None,
        bool(pods),
        finished,
        summary,
        (reason or why)[:LINE_MAX],
        owner,
        newest is not None,
    )


def _state_of_unfinished(owner: Json, ended: _End | None, *, began: bool) -> RunState:
    """Return the state of an unfinished run.

    `ended` is the end of the newest attempt, or of the previous one while the newest has not started.
    """
    if ended is not None and ended.code:
        return RunState.RETRYING
    return RunState.RUNNING if began or _reports_running(owner) else RunState.PENDING


def _reports_running(owner: Json) -> bool:
    """Return whether a Spark operator reports a running driver, which it also does if the driver's pod is gone."""
    status = owner.get("status") or {}
    state = (status.get("applicationState") or {}).get("state") or ""
    current = (status.get("currentState") or {}).get("currentStateSummary") or ""
    return state in _KUBEFLOW_RUNS or current in _APACHE_RUNS


def _began(pod: Json) -> str | None:
    """Return when the pod's first container started for the first time, as far as its status records it."""
    statuses: Sequence[Json] = (pod.get("status") or {}).get("containerStatuses") or ()
    if not statuses:
        return None
    last = (statuses[0].get("lastState") or {}).get("terminated") or {}
    state = statuses[0].get("state") or {}
    now = state.get("running") or state.get("terminated") or {}
    return last.get("startedAt") or now.get("startedAt")


def _end(pod: Json) -> _End | None:
    """Return the end of the pod's first container; None before its end.

    Pods have one container, or Spark's container before users' sidecars.
    """
    status = pod.get("status") or {}
    statuses: Sequence[Json] = status.get("containerStatuses") or ()
    ended = ((statuses[0].get("state") or {}).get("terminated") or {}) if statuses else {}
    if ended:
        code, reason = int(ended.get("exitCode", 0)), ended.get("reason") or "Error"
        return _End(code, ended.get("finishedAt") or "", ended.get("message") or "", f"{reason}, exit code {code}")
    if status.get("phase") == "Failed":
        # Evicted, for example, before its container started.
        how = f"{status.get('reason') or 'Failed'}: {status.get('message') or 'the pod has no message'}"
        return _End(1, "", "", how)
    return None


def _outcome(owner: Json) -> tuple[bool | None, str | None, str]:
    """Return whether the run succeeded (None while it is unfinished), when it ended, and why it failed."""
    status = owner.get("status") or {}
    if owner["kind"] == "Job":
        return _job_outcome(status)
    if "applicationState" in status:
        state = status["applicationState"]
        return (
            _KUBEFLOW_ENDS.get(state.get("state", "")),
            status.get("terminationTime"),
            state.get("errorMessage") or "",
        )
    current = status.get("currentState") or {}
    if current.get("currentStateSummary") not in _APACHE_ENDS:
        return None, None, ""
    history = status.get("stateTransitionHistory") or {}
    past = [history[number] for number in sorted(history, key=int)]
    of_end: Json = next((one for one in reversed(past) if one.get("currentStateSummary") not in _APACHE_ENDS), {})
    failed = of_end.get("currentStateSummary") in _APACHE_FAILURES
    return not failed, of_end.get("lastTransitionTime"), (of_end.get("message") or "") if failed else ""


def _job_outcome(status: Json) -> tuple[bool | None, str | None, str]:
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition["type"] == "Complete":
            return True, status.get("completionTime") or condition.get("lastTransitionTime"), ""
        if condition["type"] == "Failed":
            why = f"{condition.get('reason') or 'Failed'}: {condition.get('message') or ''}"
            return False, condition.get("lastTransitionTime"), why
    return None, None, ""
