"""The CronJob of an AuditPipeline: each run is one pod with Spark, which may only read and write files.

The pod has no token, no privileges and no writable files but its volumes. Its results stay on the volume or in the
store. Deleting a Job deletes its pod and nothing else.
"""

from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.resources.audit.audit_files import PROGRAM, USER_ID
from sluicegate_operator.resources.audit.audit_run import (
    TMP,
    AuditPlaces,
    arguments,
    container_security,
    env_from,
    memory_of,
    mounts,
    passwd_mount,
    pod_security,
    run_labels,
    schedule_metadata,
    volumes,
)
from sluicegate_operator.resources.container_resources import AUDIT_JOB, container_resources

DEFAULT_IMAGE = "sluicegate-audit:0.1.0"
RETRIES = 1
"""Number of retries of a failed run. After that, the schedule starts the next run."""
KEPT = 1
"""Number of successful and of failed Jobs to keep: the status is derived from their pods."""
RUN_S_MAX = 24 * 3600
"""Maximum seconds of a run: a run that hangs would keep all others from starting."""
LOOPBACK = "127.0.0.1"
_CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.local.dir": f"{TMP}/spark",
}


def cron_job(pipeline: AuditPipeline, places: AuditPlaces) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": schedule_metadata(pipeline),
        "spec": {
            "schedule": pipeline.spec.schedule,
            "timeZone": "Etc/UTC",
            "suspend": pipeline.spec.suspend,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": KEPT,
            "failedJobsHistoryLimit": KEPT,
            "jobTemplate": {
                "metadata": {"labels": run_labels(pipeline)},
                "spec": {
                    "backoffLimit": RETRIES,
                    "activeDeadlineSeconds": RUN_S_MAX,
                    "template": {"metadata": {"labels": run_labels(pipeline)}, "spec": _pod(pipeline, places)},
                },
            },
        },
    }


def _pod(pipeline: AuditPipeline, places: AuditPlaces) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(runAsUser=USER_ID, runAsGroup=USER_ID),
        "containers": [_container(pipeline, places)],
        "volumes": volumes(pipeline, places),
    }
    if pipeline.spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in pipeline.spec.image_pull_secrets]
    return pod


def _container(pipeline: AuditPipeline, places: AuditPlaces) -> dict[str, Any]:
    command = ["spark-submit", "--master", "local[*]", "--driver-memory", f"{memory_of(pipeline).heap}m"]
    for key, value in _CONF.items():
        command += ["--conf", f"{key}={value}"]
    container: dict[str, Any] = {
        "name": "pipeline",
        "image": pipeline.spec.image or DEFAULT_IMAGE,
        "command": command,
        "args": [PROGRAM, *arguments(pipeline, places)],
        "env": [
            {"name": "HOME", "value": TMP},
            {"name": "SPARK_LOCAL_IP", "value": LOOPBACK},
            # The root file system is read-only.
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        # The summary of a run, or the end of its log if it wrote none.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts(places), passwd_mount()],
        "securityContext": container_security() | {"readOnlyRootFilesystem": True},
        "resources": container_resources(pipeline.spec.resources, AUDIT_JOB),
    }
    if secrets := env_from(places):
        container["envFrom"] = secrets
    return container
