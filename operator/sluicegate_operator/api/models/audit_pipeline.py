"""AuditPipeline: reports from a cluster's audit log, computed periodically by Spark.

This module owns the spec, its rules and the status. `planning.pipelines` decides what runs and when. The pipeline
itself is another program: its input is its command line, its output the summary that it writes when it ends.
"""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.broker_cluster import NAME_PATTERN
from sluicegate_operator.api.models.parts.audit_landing import object_name_rule, uri_rule
from sluicegate_operator.api.schema.config_values import any_case
from sluicegate_operator.api.schema.images import PullSecrets, image_rule, pull_secrets_rule
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.api.schema.rules import Model, Rule, cluster_ref_stays

HOURLY = "@hourly"
SHORTHANDS = {
    HOURLY: "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
TABLES_MAX = 64
PROGRESS_MAX = 1024
"""Most characters of status.progress: the CRD's limit."""


def _field(value: str) -> str:
    part = rf"([*]|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


SCHEDULE_PATTERN = (
    "^("
    + " +".join(
        _field(value)
        for value in (
            "[0-5]?[0-9]",
            "([01]?[0-9]|2[0-3])",
            "(0?[1-9]|[12][0-9]|3[01])",
            f"(0?[1-9]|1[0-2]|{any_case(*MONTHS)})",
            f"(0?[0-6]|{any_case(*WEEKDAYS)})",
        )
    )
    + "|"
    + "|".join(SHORTHANDS)
    + ")$"
)
"""The syntax of CronJobs and the Spark operators. A schedule that matches no day is reported in the status."""

_Name = Annotated[str, Field(min_length=1, max_length=249)]
_Price = Annotated[float, Field(ge=0, le=1e9)]


class AuditPlace(Model):
    rules: ClassVar = (
        Rule(
            cel="has(self.uri) != has(self.claimName)",
            message="set exactly one of uri (s3://bucket/path) and claimName",
            allows=lambda place: (place.uri is None) != (place.claim_name is None),
        ),
        uri_rule(),
        object_name_rule("claimName", "PersistentVolumeClaim"),
    )

    uri: str | None = Field(default=None, min_length=1, max_length=1024)
    """Location in an object store, s3://bucket/path, with options such as region and endpoint_override after a '?'."""
    claim_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a PersistentVolumeClaim in the same namespace. Segments are read from a folder with the cluster's name.
    Results go to the folder NAME.results, where NAME is the name of the AuditPipeline."""


class AuditPrices(Model):
    """Prices of resources; a resource without a price costs nothing. Without prices, no table of costs is computed."""

    currency: str = Field(min_length=1, max_length=16)
    """Currency of the prices, for example EUR."""
    ingress_per_gib: _Price | None = None
    """Price of a GiB that clients produce."""
    egress_per_gib: _Price | None = None
    """Price of a GiB that clients fetch."""
    requests_per_million: _Price | None = None
    """Price of a million requests."""
    storage_per_gib_month: _Price | None = None
    """Price of storing a GiB for a month of 730 hours."""
    partition_per_hour: _Price | None = None
    """Price of a partition for an hour."""


class AuditObjective(Model):
    """The share of requests that must be answered without error within a number of milliseconds."""

    rules: ClassVar = (
        Rule(
            cel="self.target > 0.0 && self.target < 1.0",
            message="target must be a share of all requests between 0 and 1, for example 0.999",
            allows=lambda objective: 0 < objective.target < 1,
            field="target",
        ),
    )

    name: str = Field(min_length=1, max_length=100)
    """Name of the objective; unique among the objectives."""
    api: str = Field(min_length=1, max_length=64)
    """The API by Kafka's name, for example Produce."""
    latency_ms: float = Field(ge=0.001, le=1e9)
    """Milliseconds within which a request must be answered; time for which it waits on purpose does not count."""
    target: float = Field(ge=0, le=1)
    """The share of requests that must meet the objective, for example 0.999."""
    window_days: int = Field(default=30, ge=1, le=366)
    """Number of days over which the share is computed."""
    cluster_id: _Name | None = None
    """Kafka's id of the cluster to which the objective applies; all clusters in the audit log if absent."""
    topic: _Name | None = None
    """The topic to which the objective applies; all topics if absent."""
    principal: _Name | None = None
    """The principal to which the objective applies, for example User:orders; all principals if absent."""


class AuditMirror(Model):
    """Topics of one cluster that are copied to another: the produced records are compared with those that arrive."""

    rules: ClassVar = (
        Rule(
            cel="self.sourceCluster != self.mirrorCluster || (has(self.prefix) && self.prefix != '')",
            message="a topic cannot be its own mirror: set another mirrorCluster, or a prefix",
            allows=lambda mirror: mirror.source_cluster != mirror.mirror_cluster or bool(mirror.prefix),
        ),
    )

    name: str = Field(min_length=1, max_length=100)
    """Name of the mirror; unique among the mirrors."""
    source_cluster: _Name
    """Kafka's id of the cluster that is copied."""
    mirror_cluster: _Name
    """Kafka's id of the cluster that receives the copies."""
    prefix: str | None = Field(default=None, max_length=249)
    """Prefix of the names of the copies."""
    topics: Annotated[tuple[_Name, ...], Field(max_length=100)] | None = None
    """Names of topics, or prefixes of names followed by a star; all topics if absent."""


class AuditStorms(Model):
    """Thresholds for ten seconds of a listener to count as a storm; one of them is enough.

    After a change, all days whose log still exists are computed again.
    """

    connections: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Number of connections, accepted or refused; 200 if absent."""
    held: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Number of connections that a limit delayed or refused; 20 if absent."""


def _distinct(field: str, what: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.all(x, self.{field}.exists_one(y, y.name == x.name))",
        message=f"{field} must have different names, because the results identify {what} by name",
        allows=lambda spec: (
            getattr(spec, field) is None or len({one.name for one in getattr(spec, field)}) == len(getattr(spec, field))
        ),
        field=field,
    )


def _only_for_spark_applications(field: str, attribute: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || (has(self.mode) && self.mode == 'SparkApplication')",
        message=f"{field} is only for mode SparkApplication, because a Job is one pod; remove it",
        allows=lambda spec: getattr(spec, attribute) is None or spec.mode == "SparkApplication",
        field=field,
    )


class AuditPipelineSpec(Model):
    """A schedule of builds of results from the audit log of a cluster, with their settings and pods."""

    rules: ClassVar = (
        Rule(
            cel=f"self.schedule.matches('{SCHEDULE_PATTERN}')",
            message="schedule must have the five fields of cron (minute hour day month weekday, in UTC), for example"
            f" '15 */2 * * *', or one of {', '.join(SHORTHANDS)}",
            allows=lambda spec: re.fullmatch(SCHEDULE_PATTERN, spec.schedule) is not None,
            field="schedule",
        ),
        image_rule("audit"),
        pull_secrets_rule(),
        Rule(
            cel="self.mode != 'SparkApplication' || (has(self.sparkOperator) && has(self.image))",
            message="mode SparkApplication needs sparkOperator (apache or kubeflow) and image, one of Spark's own"
            " images with this pipeline installed",
            allows=lambda spec: spec.mode != "SparkApplication" or None not in (spec.spark_operator, spec.image),
        ),
        _only_for_spark_applications("sparkOperator", "spark_operator"),
        _only_for_spark_applications("executors", "executors"),
        _only_for_spark_applications("serviceAccountName", "service_account_name"),
        object_name_rule("serviceAccountName", "ServiceAccount"),
        object_name_rule("secretName", "Secret"),
        _distinct("objectives", "objectives"),
        _distinct("mirrors", "mirrors"),
    )
    transitions: ClassVar = (
        cluster_ref_stays("delete this AuditPipeline, which keeps its results, and create a new one"),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster whose audit log is read."""
    schedule: str = Field(default=HOURLY, min_length=6, max_length=100)
    """Times of the runs in cron syntax, in UTC. If the previous run has not ended, a run that is due waits for it."""
    suspend: bool = False
    """While true, no run is started; a run in progress is completed."""
    source: AuditPlace | None = None
    """Where the segments of the audit log are; if absent, where audit.landing of the BrokerCluster stores them."""
    results: AuditPlace
    """Where the results and the report are written. They stay when the AuditPipeline is deleted."""
    secret_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a Secret in the same namespace whose keys become environment variables of the run, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. If absent, the Secret of audit.landing of the BrokerCluster is used."""
    prices: AuditPrices | None = None
    """Prices of resources, for the costs of principals and topics."""
    objectives: Annotated[tuple[AuditObjective, ...], Field(max_length=50)] | None = None
    """Service level objectives for clients, which are compared with the measured values."""
    mirrors: Annotated[tuple[AuditMirror, ...], Field(max_length=20)] | None = None
    """The topics that are copied, and the clusters to which they are copied."""
    storms: AuditStorms | None = None
    """Thresholds for connection storms."""
    mode: Literal["Job", "SparkApplication"] = "Job"
    """Job runs the pipeline in one pod: spark-submit --master local[*] in a CronJob. SparkApplication runs it in
    several pods, through a Spark operator that must be installed already."""
    spark_operator: Literal["apache", "kubeflow"] | None = None
    """The installed Spark operator. For apache, each run is a SparkApplication of spark.apache.org/v1. For kubeflow,
    one ScheduledSparkApplication of sparkoperator.k8s.io/v1beta2 is created."""
    executors: int | None = Field(default=None, ge=1, le=1000)
    """Number of executors of a SparkApplication; 2 if absent."""
    service_account_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of the ServiceAccount of a SparkApplication's driver, which must be allowed to create pods; spark if
    absent."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Container image with the pipeline, Spark and Java 17 or later. If absent, a Job runs sluicegate-audit of the
    operator's own version."""
    image_pull_secrets: PullSecrets | None = None
    """Names of Secrets in the same namespace with which the image is pulled."""
    resources: Resources | None = None
    """Requests and limits of the pod, for driver and executors alike. Spark's heap is 60 % of limits.memory, or 1 GiB
    without that limit. For a Job, a resource that is in neither gets the operator's defaults: requests of 500m cpu and
    1Gi memory, limits of 4 cpu and 2Gi memory."""
    retention_days: int | None = Field(default=None, ge=1, le=36500)
    """Age in days after which results are deleted; they are never deleted if absent."""
    segment_ms: int | None = Field(default=None, ge=1, le=86_400_000)
    """segment.ms of the audit logs in the source, in milliseconds; 60000 if absent. The audit log of a broker counts as
    open if it has no end, and its last segment ended more than twice as long ago."""
    report: bool = True
    """Whether each run writes a page for users, report.html, beside the results."""

    def settings_files(self) -> dict[str, Any]:
        """Return the JSON files for the pipeline, by the name of its option; none for settings that the spec lacks."""
        found: dict[str, Any] = {
            "prices": self.prices.model_dump(exclude_none=True) if self.prices else None,
            "objectives": {"objectives": [one.model_dump(exclude_none=True) for one in self.objectives or ()]},
            "mirrors": {"mirrors": [one.model_dump(mode="json", exclude_none=True) for one in self.mirrors or ()]},
            "storms": self.storms.model_dump(exclude_none=True) if self.storms else None,
        }
        wanted = {"prices": self.prices, "objectives": self.objectives, "mirrors": self.mirrors, "storms": self.storms}
        return {name: found[name] for name, value in wanted.items() if value}


class AuditWindow(Model):
    model_config = Status.model_config

    first: str = Field(default="", alias="from", max_length=32)
    """The first day, in UTC."""
    last: str = Field(default="", alias="to", max_length=32)
    """The last day, in UTC."""


class AuditRun(Model):
    """One run, as its pod reports it."""

    model_config = Status.model_config

    name: str = Field(default="", max_length=253)
    """Name of the Job or SparkApplication."""
    state: str = Field(default="", max_length=32)
    """Pending, Running, Retrying, Succeeded, Failed or Deleted. Pending until the container of its pod has started.
    Deleted if its Job or SparkApplication was deleted before the run ended."""
    started: str | None = Field(default=None, max_length=32)
    """Time when the container of its pod started; absent before."""
    finished: str | None = Field(default=None, max_length=32)
    """Time when the run ended."""


class AuditPipelineStatus(Status):
    last_run: AuditRun | None = None
    """The newest run."""
    last_success_time: str | None = Field(default=None, max_length=32)
    """Time when a run last succeeded; the fields below describe that run."""
    last_schedule_time: str | None = Field(default=None, max_length=32)
    """The scheduled time of the last SparkApplication that the operator created. Kubernetes creates the Jobs."""
    last_window: AuditWindow | None = None
    """The first and the last day of all results, including days that earlier runs computed."""
    events: int | None = None
    """Number of events that the audit log has for these days."""
    rows: Annotated[dict[str, int], Field(max_length=TABLES_MAX)] | None = None
    """Number of rows that the run wrote, by table. For a table by day, only rows of the days that the run computed."""
    missing: int | None = None
    """Number of events that the audit log itself reports as missing in these days."""
    holes: int | None = None
    """Number of events in these days that are missing without a report, because their segments do not exist."""
    quarantined_files: int | None = None
    """Number of segment files that were set aside: damaged, of an unknown version, or written with a wrong clock."""
    complete: str = Field(default="", max_length=16)
    """Whether no event is missing: True, False, or Unknown before a run has reported it."""
    report_location: str | None = Field(default=None, max_length=2048)
    """Location of the report of the last run that succeeded."""
    last_error: str | None = Field(default=None, max_length=1024)
    """The first line of the error of the newest run; absent if it has none."""
    progress: str | None = Field(default=None, max_length=PROGRESS_MAX)
    """Time since which a run is running, and the duration of the previous one; for a Pending run, why its pod does not
    start."""
    took_seconds: float | None = None
    """Duration of the last run that succeeded, in seconds, as the run reports it."""


class AuditPipeline(Resource):
    """Computes results and a report from a cluster's audit log: traffic, cost, objectives, idle topics, storms."""

    plural: ClassVar = "auditpipelines"
    short_name: ClassVar = "ap"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Schedule", json_path=".spec.schedule"),
        PrinterColumn(name="Run", json_path=".status.lastRun.state"),
        PrinterColumn(name="Success", json_path=".status.lastSuccessTime", type="date"),
        PrinterColumn(name="Complete", json_path=".status.complete"),
        PrinterColumn(name="Report", json_path=".status.reportLocation", priority=1),
        *CONDITION_COLUMNS,
    )
    rules: ClassVar = (
        Rule(
            cel=f"self.metadata.name.matches('{NAME_PATTERN}')",
            message="the name of an AuditPipeline must be at most 40 lower-case letters, digits and '-', begin with a"
            " letter and not end with '-', because the names of its Jobs and pods begin with it",
            allows=lambda model: re.fullmatch(NAME_PATTERN, model.metadata.name) is not None,
        ),
    )

    kind: Literal["AuditPipeline"] = "AuditPipeline"
    spec: AuditPipelineSpec
    """What is computed, when, and where the results go."""
    status: AuditPipelineStatus = Field(default_factory=AuditPipelineStatus)
    """The results of the runs."""
