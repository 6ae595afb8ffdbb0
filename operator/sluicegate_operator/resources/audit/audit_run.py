"""Arguments, environment and volumes of one run of an AuditPipeline, wherever it runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline, AuditPlace
from sluicegate_operator.api.schema.metadata import GROUP
from sluicegate_operator.api.schema.quantities import amount
from sluicegate_operator.resources.audit.audit_files import (
    COMPONENT,
    FILES_PATH,
    PASSWD,
    THEN,
    USER_ID,
    audit_files_name,
)
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

PIPELINE_LABEL = f"{GROUP}/pipeline"
"""Label of Jobs, SparkApplications and pods with the name of the AuditPipeline."""
SEGMENTS_PATH = "/var/lib/sluicegate-audit"
RESULTS_PATH = "/var/lib/sluicegate-results"
SUMMARY = "/dev/termination-log"
"""File from which Kubernetes reads a container's termination message; 4096 bytes of it reach the pod's status."""
REPORT = "report.html"
TMP = "/tmp"
_FILES, _SEGMENTS, _RESULTS, _TMP = "files", "segments", "results", "tmp"
_HEAP_MIB = 1024
_HEAP_SHARE = 60
"""Percent of a pod's memory for Spark's heap; the rest is for Python and Arrow."""


@dataclass(frozen=True, slots=True)
class AuditPlaces:
    """The places of a run: what it reads and writes. `source` is that of the spec or of the cluster's landing."""

    cluster: str
    source: AuditPlace
    results: AuditPlace
    secret_name: str | None
    cluster_names: Sequence[tuple[str, str]] = ()
    """IDs and names (namespace/name) of the clusters that land in the source."""

    def source_argument(self) -> str:
        return self.source.uri or f"{SEGMENTS_PATH}/{self.cluster}"

    def results_argument(self, pipeline: str) -> str:
        return self.results.uri or f"{RESULTS_PATH}/{pipeline}.results"

    def report_location(self, pipeline: str) -> str:
        """Return the location of the report for users. A file on a claim has no address."""
        if self.results.claim_name is not None:
            return f"claim {self.results.claim_name}: {pipeline}.results/{REPORT}"
        return f"{self.results_argument(pipeline).partition('?')[0].rstrip('/')}/{REPORT}"


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one Spark process of an audit pipeline, in MiB.

    `beside` is what a pod needs beyond the heap; None without a memory limit.
    """

    heap: int
    beside: int | None


def memory_of(pipeline: AuditPipeline) -> Memory:
    resources = pipeline.spec.resources
    limit = (resources.limits or {}).get("memory") if resources is not None else None
    if limit is None:
        return Memory(_HEAP_MIB, None)
    mebibytes = int(amount(limit)) >> 20
    heap = mebibytes * _HEAP_SHARE // 100
    return Memory(heap, mebibytes - heap)


def arguments(pipeline: AuditPipeline, places: AuditPlaces) -> list[str]:
    """Return the arguments of the audit program, as in the ConfigMap."""
    results, spec = places.results_argument(pipeline.name), pipeline.spec
    words = ["build", "--source", places.source_argument(), "--results", results, "--summary", SUMMARY]
    words += ["--recommend", "daily"]
    for name in spec.settings_files():
        words += [f"--{name}", f"{FILES_PATH}/{name}.json"]
    if spec.retention_days is not None:
        words += ["--retention-days", str(spec.retention_days)]
    if spec.segment_ms is not None:
        words += ["--segment-ms", str(spec.segment_ms)]
    if spec.report:
        words += [THEN, "report", "--results", results, "--publish"]
        words += [f"--cluster-name={cluster_id}={name}" for cluster_id, name in places.cluster_names]
    return words


def run_labels(pipeline: AuditPipeline) -> dict[str, str]:
    return labels(pipeline.spec.cluster_ref.name, COMPONENT) | {PIPELINE_LABEL: pipeline.name}


def schedule_metadata(pipeline: AuditPipeline) -> dict[str, Any]:
    """Return the metadata of the object that creates the runs: a CronJob or a ScheduledSparkApplication."""
    return child_metadata(pipeline, pipeline.name, run_labels(pipeline))


def volumes(pipeline: AuditPipeline, places: AuditPlaces) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": _FILES, "configMap": {"name": audit_files_name(pipeline.name)}},
        {"name": _TMP, "emptyDir": {}},
    ]
    for name, place in ((_SEGMENTS, places.source), (_RESULTS, places.results)):
        if place.claim_name is not None:
            found.append({"name": name, "persistentVolumeClaim": {"claimName": place.claim_name}})
    return found


def mounts(places: AuditPlaces) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": _FILES, "mountPath": FILES_PATH, "readOnly": True},
        {"name": _TMP, "mountPath": TMP},
    ]
    if places.source.claim_name is not None:
        found.append({"name": _SEGMENTS, "mountPath": SEGMENTS_PATH, "readOnly": True})
    if places.results.claim_name is not None:
        found.append({"name": _RESULTS, "mountPath": RESULTS_PATH})
    return found


def passwd_mount() -> dict[str, Any]:
    return {"name": _FILES, "mountPath": "/etc/passwd", "subPath": PASSWD, "readOnly": True}


def env_from(places: AuditPlaces) -> list[dict[str, Any]]:
    """Return the reference to the Secret for the container's environment.

    The Secret is optional: without it the run starts, and the store reports the error.
    """
    if places.secret_name is None:
        return []
    return [{"secretRef": {"name": places.secret_name, "optional": True}}]


def container_security() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod_security(**more: Any) -> dict[str, Any]:
    return {"runAsNonRoot": True, "fsGroup": USER_ID, "seccompProfile": {"type": "RuntimeDefault"}, **more}
