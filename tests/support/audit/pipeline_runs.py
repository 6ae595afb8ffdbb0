"""Jobs, SparkApplications and pods of AuditPipelines as the API server has them; the times are minutes of one hour."""

from typing import Any

from sluicegate_operator.resources.audit.audit_files import COMPONENT
from sluicegate_operator.resources.labels import labels
from tests.support.manifests.bad_manifests import Json

SUMMARY = (
    '{"window": {"from": "2026-11-20", "to": "2026-11-22"}, "events": 123, "rows": {"rollup": 10}, "missing": 0,'
    ' "holes": 0, "quarantinedFiles": 0, "days": 3, "error": null, "version": "0.1.0",'
    ' "tookSeconds": 12.3}'
)


def time(minute: int) -> str:
    return f"2026-11-22T12:{minute:02}:00Z"


def _object(kind: str, version: str, name: str, made: int, status: Json) -> Json:
    meta = {
        "name": name,
        "namespace": "default",
        "creationTimestamp": time(made),
        "labels": {**labels("shop", COMPONENT), "sluicegate.dev/pipeline": "daily"},
    }
    return {"apiVersion": version, "kind": kind, "metadata": meta, "status": status}


def job(name: str, ended: str = "", *, made: int = 1, why: str = "BackoffLimitExceeded") -> Json:
    """A Job; `ended` is Complete or Failed, or empty while it runs."""
    condition = {"type": ended, "status": "True", "lastTransitionTime": time(made), "reason": why, "message": "it has"}
    return _object("Job", "batch/v1", name, made, {"conditions": [condition]} if ended else {})


def job_pod(of: str, code: int | None, said: str = "", *, how: str = "", made: int = 1, number: int = 1) -> Json:
    return _pod(f"{of}-{number}", {"batch.kubernetes.io/job-name": of}, code, said, how, made)


def waiting_pod(of: str, reason: str = "", message: str = "", *, made: int = 1, number: int = 1) -> Json:
    """A Job's pod whose container has not begun; without `reason` it is being started."""
    pod = job_pod(of, None, made=made, number=number)
    status: Json = {"phase": "Pending", "startTime": time(made)}
    if reason == "Unschedulable":
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        status = {"phase": "Pending", "conditions": [unscheduled]}
    elif reason:
        status["containerStatuses"] = [{"state": {"waiting": {"reason": reason, "message": message}}}]
    return {**pod, "status": status}


def spark_pod(of: str, code: int, said: str, label: str = "sluicegate.dev/run", *, made: int = 1) -> Json:
    return _pod(f"{of}-driver", {label: of}, code, said, "", made)


def _pod(name: str, more: Json, code: int | None, said: str, how: str, made: int) -> Json:
    began = {"startedAt": time(made)}
    state: Json = {"running": began}
    if code is not None:
        end = {"exitCode": code, "reason": how or ("Error" if code else "Completed"), "message": said}
        state = {"terminated": {**began, **end, "finishedAt": time(made)}}
    phase = "Running" if code is None else "Failed" if code else "Succeeded"
    status: dict[str, Any] = {"phase": phase, "startTime": time(made), "containerStatuses": [{"state": state}]}
    pod = _object("Pod", "v1", name, made, status)
    pod["metadata"]["labels"] |= more
    return pod


def spark_run(
    name: str, ended: str = "", *, made: int = 1, message: str = "", of: str = "u", current: str = "RunningHealthy"
) -> Json:
    """A run of Apache's Spark operator, which still reports states after it has ended.

    `current` is the state of a run that has not ended. `of` is the uid of its AuditPipeline.
    """
    history = [{"currentStateSummary": "Submitted"}, {"currentStateSummary": current}]
    if ended:
        history.append({"currentStateSummary": ended, "message": message, "lastTransitionTime": time(made)})
        history.append({"currentStateSummary": "TerminatedWithoutReleaseResources"})
    numbered = {str(number): state for number, state in enumerate(history)}
    status = {"currentState": history[-1], "stateTransitionHistory": numbered}
    found = _object("SparkApplication", "spark.apache.org/v1", name, made, status)
    found["metadata"]["ownerReferences"] = [{"kind": "AuditPipeline", "name": "daily", "uid": of, "controller": True}]
    return found


def kubeflow_application(name: str, state: str, *, made: int = 1, error: str = "") -> Json:
    status: Json = (
        {"applicationState": {"state": state, "errorMessage": error}, "terminationTime": None} if state else {}
    )
    return _object("SparkApplication", "sparkoperator.k8s.io/v1beta2", name, made, status)
