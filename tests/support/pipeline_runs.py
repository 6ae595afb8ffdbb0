"""Jobs, SparkApplications and pods of AuditPipelines as the API server has them; the times are minutes of one hour."""

from typing import Any

from tests.support.bad_manifests import Json

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
        "labels": {"sluicegate.dev/pipeline": "daily"},
    }
    return {"apiVersion": version, "kind": kind, "metadata": meta, "status": status}


def job(name: str, ended: str = "", *, made: int = 1, why: str = "BackoffLimitExceeded") -> Json:
    """`ended`: Complete or Failed."""
    condition = {"type": ended, "status": "True", "lastTransitionTime": time(made), "reason": why, "message": "it has"}
    return _object("Job", "batch/v1", name, made, {"conditions": [condition]} if ended else {})


def job_pod(of: str, code: int | None, said: str = "", *, how: str = "", made: int = 1, number: int = 1) -> Json:
    return _pod(f"{of}-{number}", {"batch.kubernetes.io/job-name": of}, code, said, how, made)


def spark_pod(of: str, code: int, said: str, label: str = "sluicegate.dev/run", *, made: int = 1) -> Json:
    return _pod(f"{of}-driver", {label: of}, code, said, "", made)


def _pod(name: str, labels: Json, code: int | None, said: str, how: str, made: int) -> Json:
    state: Json = {"running": {}}
    if code is not None:
        reason = how or ("Error" if code else "Completed")
        state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": time(made), "message": said}}
    phase = "Running" if code is None else "Failed" if code else "Succeeded"
    status: dict[str, Any] = {"phase": phase, "startTime": time(made), "containerStatuses": [{"state": state}]}
    pod = _object("Pod", "v1", name, made, status)
    pod["metadata"]["labels"] |= labels | {"sluicegate.dev/cluster": "shop"}
    return pod


def spark_run(name: str, ended: str = "", *, made: int = 1, message: str = "", of: str = "u") -> Json:
    """Of Apache's Spark operator, which goes on after a run has ended. `of` is the uid of its AuditPipeline."""
    history = [{"currentStateSummary": "Submitted"}, {"currentStateSummary": "RunningHealthy"}]
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
