"""The runs of an AuditPipeline, from the Jobs or SparkApplications and from the pods that they had. Pure.

How a run stands is for its owner to say, who may try again; why, and what it has done, its pod says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluicegate_operator.planning.run_summary import LINE_MAX, Summary, last_line, read_summary
from sluicegate_operator.resources.audit_spark import RUN_LABEL

Json = Mapping[str, Any]

_OWNER_LABELS = ("batch.kubernetes.io/job-name", RUN_LABEL, "sparkoperator.k8s.io/app-name")
"""Of a pod: its Job, its SparkApplication of either Spark operator."""
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


class RunState(StrEnum):
    """How a run stands; RETRYING is one that failed and that its owner tries again."""

    RUNNING = "Running"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """`summary` is what its newest pod that has ended has said, None where it said nothing that can be read. `why` is a
    line for one that failed. Times are the API server's texts."""

    name: str
    state: RunState
    started: str
    finished: str | None = None
    summary: Summary | None = None
    why: str = ""
    owner: Json | None = None
    pod_ended: bool = False
    """Whether its newest pod has; its owner may not have taken notice yet."""

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
    """Oldest first. Pods of others' owners are left out."""
    of: dict[str, list[Json]] = {}
    for pod in sorted(pods, key=_made):
        has = pod["metadata"].get("labels") or {}
        name = next((has[label] for label in _OWNER_LABELS if label in has), "")
        of.setdefault(name, []).append(pod)
    return tuple(_run(owner, of.get(owner["metadata"]["name"], [])) for owner in sorted(owners, key=_made))


def _made(item: Json) -> tuple[str, str]:
    return item["metadata"].get("creationTimestamp") or "", item["metadata"]["name"]


def _run(owner: Json, pods: Sequence[Json]) -> PipelineRun:
    ends = [_end(pod) for pod in pods]
    newest = ends[-1] if ends else None
    well, finished, why = _outcome(owner)
    last = next((end for end in reversed(ends) if end is not None), None)
    started = next((time for pod in pods if (time := (pod.get("status") or {}).get("startTime"))), _made(owner)[0])
    if well is None:
        state = RunState.RETRYING if newest is not None and newest.code else RunState.RUNNING
        finished = None
    else:
        state = RunState.SUCCEEDED if well else RunState.FAILED
        finished = finished or (last.at if last else None) or started
    summary = read_summary(last.said) if last else None
    if state is RunState.SUCCEEDED or last is None:
        reason = why
    elif summary is not None:
        # It had said that all is well: then what came after it has failed, as the report.
        reason = summary.error or f"the results are there, and what came after them failed: {last.how}"
    else:
        reason = last_line(last.said) or last.how
    return PipelineRun(
        owner["metadata"]["name"],
        state,
        started,
        finished,
        summary,
        (reason or why)[:LINE_MAX],
        owner,
        newest is not None,
    )


def _end(pod: Json) -> _End | None:
    """Of its first container; pods have one, or Spark's and what people put beside it."""
    status = pod.get("status") or {}
    statuses: Sequence[Json] = status.get("containerStatuses") or ()
    ended = ((statuses[0].get("state") or {}).get("terminated") or {}) if statuses else {}
    if ended:
        code, reason = int(ended.get("exitCode", 0)), ended.get("reason") or "Error"
        return _End(code, ended.get("finishedAt") or "", ended.get("message") or "", f"{reason}, exit code {code}")
    if status.get("phase") == "Failed":
        # Evicted, for example, before its container began.
        how = f"{status.get('reason') or 'Failed'}: {status.get('message') or 'the pod said nothing'}"
        return _End(1, "", "", how)
    return None


def _outcome(owner: Json) -> tuple[bool | None, str | None, str]:
    """Whether it ended well, None while it goes on; when; and why it failed."""
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
