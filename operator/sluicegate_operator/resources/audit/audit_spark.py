"""SparkApplications of an AuditPipeline, for the two Spark operators in use.

Both get the same program, arguments, pod template and Spark configuration; each creates pods in its own way. Spark's
own image defines the user.
"""

from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.schema.metadata import GROUP
from sluicegate_operator.resources.audit.audit_files import PROGRAM
from sluicegate_operator.resources.audit.audit_run import (
    AuditPlaces,
    arguments,
    container_security,
    env_from,
    memory_of,
    mounts,
    pod_security,
    run_labels,
    schedule_metadata,
    volumes,
)
from sluicegate_operator.resources.owner import child_metadata

SPARK_VERSION = "4.3.0"
"""The version of Spark with which the pipeline is tested."""
EXECUTORS, ACCOUNT = 2, "spark"
KEPT = 2
"""Number of ended SparkApplications to keep; kubeflow's Spark operator keeps one of each outcome."""
RETRIES, RETRY_S = 1, 60
RUN_LABEL = f"{GROUP}/run"
"""Label of a driver's pod with the name of its SparkApplication."""
_TIME = "%Y%m%d%H%M"


def application_name(pipeline: str, time: datetime) -> str:
    """Return the name of a run's SparkApplication.

    Each time of the schedule always gets the same name, so that a run is created only once.
    """
    return f"{pipeline}-{time.strftime(_TIME)}"


def spark_application(pipeline: AuditPipeline, places: AuditPlaces, time: datetime) -> dict[str, Any]:
    """Return a SparkApplication for Apache's Spark operator, which has no schedules.

    The operator must keep the driver's pod, which has the result.
    """
    spec, name = pipeline.spec, application_name(pipeline.name, time)
    driver = _template(pipeline, places) | {"metadata": {"labels": run_labels(pipeline) | {RUN_LABEL: name}}}
    return {
        "apiVersion": "spark.apache.org/v1",
        "kind": "SparkApplication",
        "metadata": child_metadata(pipeline, name, run_labels(pipeline)),
        "spec": {
            "pyFiles": f"local://{PROGRAM}",
            "driverArgs": arguments(pipeline, places),
            "sparkConf": {
                **_conf(pipeline),
                "spark.kubernetes.container.image": spec.image or "",
                "spark.kubernetes.authenticate.driver.serviceAccountName": spec.service_account_name or ACCOUNT,
            },
            "runtimeVersions": {"sparkVersion": SPARK_VERSION},
            "applicationTolerations": {
                "resourceRetainPolicy": "Always",
                "restartConfig": {
                    "restartPolicy": "OnFailure",
                    "maxRestartAttempts": RETRIES,
                    "restartBackoffMillis": RETRY_S * 1000,
                },
            },
            "driverSpec": {"podTemplateSpec": driver},
            "executorSpec": {"podTemplateSpec": _template(pipeline, places)},
        },
    }


def scheduled_spark_application(pipeline: AuditPipeline, places: AuditPlaces) -> dict[str, Any]:
    """Return the object for kubeflow's Spark operator, which copies its labels to each SparkApplication."""
    spec = pipeline.spec
    retries = {"onFailureRetries": RETRIES, "onFailureRetryInterval": RETRY_S}
    submissions = {"onSubmissionFailureRetries": RETRIES, "onSubmissionFailureRetryInterval": RETRY_S}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "ScheduledSparkApplication",
        "metadata": schedule_metadata(pipeline),
        "spec": {
            "schedule": spec.schedule,
            "timeZone": "UTC",
            "suspend": spec.suspend,
            "concurrencyPolicy": "Forbid",
            "successfulRunHistoryLimit": 1,
            "failedRunHistoryLimit": 1,
            "template": {
                "type": "Python",
                "pythonVersion": "3",
                "mode": "cluster",
                "sparkVersion": SPARK_VERSION,
                "image": spec.image,
                "mainApplicationFile": f"local://{PROGRAM}",
                "arguments": arguments(pipeline, places),
                "sparkConf": _conf(pipeline),
                "restartPolicy": {"type": "OnFailure", **retries, **submissions},
                "driver": {
                    "serviceAccount": spec.service_account_name or ACCOUNT,
                    "labels": run_labels(pipeline),
                    "template": _template(pipeline, places),
                },
                "executor": {
                    "instances": spec.executors or EXECUTORS,
                    "template": _template(pipeline, places),
                },
            },
        },
    }


def _conf(pipeline: AuditPipeline) -> dict[str, str]:
    memory, resources = memory_of(pipeline), pipeline.spec.resources
    conf = {"spark.executor.instances": str(pipeline.spec.executors or EXECUTORS)}
    for role in ("driver", "executor"):
        conf[f"spark.{role}.memory"] = f"{memory.heap}m"
        if memory.beside is not None:
            conf[f"spark.{role}.memoryOverhead"] = f"{memory.beside}m"
        for kind, amounts in (
            ("request", resources.requests if resources else None),
            ("limit", resources.limits if resources else None),
        ):
            if amounts and "cpu" in amounts:
                conf[f"spark.kubernetes.{role}.{kind}.cores"] = amounts["cpu"]
    return conf


def _template(pipeline: AuditPipeline, places: AuditPlaces) -> dict[str, Any]:
    """Return the settings of driver and executors that Spark's configuration does not support."""
    container: dict[str, Any] = {
        "name": "spark",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(places),
        "securityContext": container_security(),
    }
    if secrets := env_from(places):
        container["envFrom"] = secrets
    return {
        "spec": {
            "containers": [container],
            "volumes": volumes(pipeline, places),
            "securityContext": pod_security(),
        }
    }
