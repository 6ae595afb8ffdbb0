"""AuditPipeline: what a cluster's audit log answers, computed again and again by Spark.

Owns the spec, its rules and the status. What runs and when is `planning.pipelines`' business. The pipeline itself is
another program: what it is asked is its command line, what it says is the summary that it leaves when it ends.
"""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.audit_landing import object_name_rule, uri_rule
from sluicegate_operator.api.broker_cluster import NAME_PATTERN
from sluicegate_operator.api.config_values import any_case
from sluicegate_operator.api.images import PullSecrets, image_rule, pull_secrets_rule
from sluicegate_operator.api.metadata import (
    AGE_COLUMN,
    CLUSTER_COLUMN,
    MESSAGE_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.resource_amounts import Resources
from sluicegate_operator.api.rules import Model, Rule, cluster_ref_stays

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
"""As CronJobs and the Spark operators read a schedule; what is no time of any day is said in the status."""

_Name = Annotated[str, Field(min_length=1, max_length=249)]
_Price = Annotated[float, Field(ge=0, le=1e9)]


class AuditPlace(Model):
    rules: ClassVar = (
        Rule(
            cel="has(self.uri) != has(self.claimName)",
            message="it is one place: say exactly one of uri (s3://bucket/path) and claimName",
            holds=lambda place: (place.uri is None) != (place.claim_name is None),
        ),
        uri_rule(),
        object_name_rule("claimName", "PersistentVolumeClaim"),
    )

    uri: str | None = Field(default=None, min_length=1, max_length=1024)
    """A place in an object store, s3://bucket/path, with options such as region and endpoint_override behind a '?'."""
    claim_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a PersistentVolumeClaim in the same namespace: segments are looked for in a folder of the cluster's name,
    results go to the folder NAME.results, NAME being that of the AuditPipeline."""


class AuditPrices(Model):
    """What resources cost; one that is not named costs nothing. Without prices there is no table of costs."""

    currency: str = Field(min_length=1, max_length=16)
    """In what the prices are, for example EUR."""
    ingress_per_gib: _Price | None = None
    """Of a GiB that clients produce."""
    egress_per_gib: _Price | None = None
    """Of a GiB that clients fetch."""
    requests_per_million: _Price | None = None
    """Of a million requests."""
    storage_per_gib_month: _Price | None = None
    """Of a GiB that is kept for a month of 730 hours."""
    partition_per_hour: _Price | None = None
    """Of a partition that there is for an hour."""


class AuditObjective(Model):
    """A share of requests is to be answered without error in so many milliseconds."""

    rules: ClassVar = (
        Rule(
            cel="self.target > 0.0 && self.target < 1.0",
            message="target is a share of all requests between 0 and 1, for example 0.999",
            holds=lambda objective: 0 < objective.target < 1,
            field="target",
        ),
    )

    name: str = Field(min_length=1, max_length=100)
    """What people call it; each objective has its own."""
    api: str = Field(min_length=1, max_length=64)
    """The API by Kafka's name, for example Produce."""
    latency_ms: float = Field(ge=0.001, le=1e9)
    """Milliseconds within which a request is to be answered; what it waits for on purpose does not count."""
    target: float = Field(ge=0, le=1)
    """The share of requests that are, for example 0.999."""
    window_days: int = Field(default=30, ge=1, le=366)
    """Days over which the share is taken."""
    cluster_id: _Name | None = None
    """Kafka's id of the cluster that it is about; all that are in the audit log when absent."""
    topic: _Name | None = None
    """The topic that it is about; all when absent."""
    principal: _Name | None = None
    """The principal that it is about, for example User:orders; all when absent."""


class AuditMirror(Model):
    """Topics of one cluster that something copies to another: what was produced is compared with what arrives."""

    rules: ClassVar = (
        Rule(
            cel="self.sourceCluster != self.mirrorCluster || (has(self.prefix) && self.prefix != '')",
            message="a topic cannot be its own mirror: say another mirrorCluster, or a prefix",
            holds=lambda mirror: mirror.source_cluster != mirror.mirror_cluster or bool(mirror.prefix),
        ),
    )

    name: str = Field(min_length=1, max_length=100)
    """What people call it; each mirror has its own."""
    source_cluster: _Name
    """Kafka's id of the cluster that is copied."""
    mirror_cluster: _Name
    """Kafka's id of the cluster that is copied to."""
    prefix: str | None = Field(default=None, max_length=249)
    """What the names of the copies begin with."""
    topics: Annotated[tuple[_Name, ...], Field(max_length=100)] | None = None
    """Names of topics, or beginnings of names with a star behind; all when absent."""


class AuditStorms(Model):
    """When ten seconds of a listener are called stormy; one of both is enough. After a change all days
    whose log is still there are computed anew."""

    connections: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """So many connections, accepted or refused; 200 when absent."""
    held: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """So many connections that were limited or refused; 20 when absent."""


def _distinct(field: str, what: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.all(x, self.{field}.exists_one(y, y.name == x.name))",
        message=f"{field}: each needs a name of its own, by which the results tell {what} apart",
        holds=lambda spec: (
            getattr(spec, field) is None or len({one.name for one in getattr(spec, field)}) == len(getattr(spec, field))
        ),
        field=field,
    )


def _only_for_spark_applications(field: str, attribute: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || (has(self.mode) && self.mode == 'SparkApplication')",
        message=f"{field} is for mode SparkApplication alone: a Job is one pod; take it out",
        holds=lambda spec: getattr(spec, attribute) is None or spec.mode == "SparkApplication",
        field=field,
    )


class AuditPipelineSpec(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.schedule.matches('{SCHEDULE_PATTERN}')",
            message="schedule must be five fields of cron (minute hour day month weekday, in UTC), for example"
            f" '15 */2 * * *', or one of {', '.join(SHORTHANDS)}",
            holds=lambda spec: re.fullmatch(SCHEDULE_PATTERN, spec.schedule) is not None,
            field="schedule",
        ),
        image_rule("audit"),
        pull_secrets_rule(),
        Rule(
            cel="self.mode != 'SparkApplication' || (has(self.sparkOperator) && has(self.image))",
            message="mode SparkApplication needs sparkOperator (apache or kubeflow) and image, one of Spark's own"
            " images with this pipeline installed",
            holds=lambda spec: spec.mode != "SparkApplication" or None not in (spec.spark_operator, spec.image),
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
        cluster_ref_stays("delete this AuditPipeline, which leaves its results, and make a new one"),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster whose audit log is read."""
    schedule: str = Field(default=HOURLY, min_length=6, max_length=100)
    """When it runs, as cron says it, in UTC; a run that is due while another one goes on waits for it."""
    suspend: bool = False
    """While true no run is begun; one that goes on ends."""
    source: AuditPlace | None = None
    """Where the segments of the audit log are; where audit.landing of the BrokerCluster puts them when absent."""
    results: AuditPlace
    """Where the results and the report go. They stay when the AuditPipeline is deleted."""
    secret_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a Secret in the same namespace whose keys are variables of the run, such as AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY; that of audit.landing of the BrokerCluster when absent."""
    prices: AuditPrices | None = None
    """What resources cost, for the shares of principals and topics in it."""
    objectives: Annotated[tuple[AuditObjective, ...], Field(max_length=50)] | None = None
    """What is promised to clients, and compared with what they had."""
    mirrors: Annotated[tuple[AuditMirror, ...], Field(max_length=20)] | None = None
    """Which topics are copied to which cluster."""
    storms: AuditStorms | None = None
    """When connections are a storm."""
    mode: Literal["Job", "SparkApplication"] = "Job"
    """Job runs it in one pod, spark-submit --master local[*] in a CronJob. SparkApplication has a Spark operator that
    is there already run it over several pods."""
    spark_operator: Literal["apache", "kubeflow"] | None = None
    """Which Spark operator: apache makes a SparkApplication of spark.apache.org/v1 for each run, kubeflow one
    ScheduledSparkApplication of sparkoperator.k8s.io/v1beta2."""
    executors: int | None = Field(default=None, ge=1, le=1000)
    """Number of executors of a SparkApplication; 2 when absent."""
    service_account_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of the ServiceAccount of a SparkApplication's driver, which may make pods; spark when absent."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Container image with the pipeline, Spark and Java 17 or later; of a Job sluicegate-audit of the operator's own
    version when absent."""
    image_pull_secrets: PullSecrets | None = None
    """Names of Secrets in the same namespace that the image is pulled with."""
    resources: Resources | None = None
    """Requests and limits of the pod, of driver and executors alike. Spark's heap is 60 % of limits.memory, and 1 GiB
    where there is none; a Job then requests 500m of cpu and 1Gi of memory, and has 4 and 2Gi at most."""
    retention_days: int | None = Field(default=None, ge=1, le=36500)
    """Results of days that are longer ago are deleted; they are kept when absent."""
    report: bool = True
    """Whether each run ends with a page for people, report.html, beside the results."""

    def settings_files(self) -> dict[str, Any]:
        """What the pipeline is given as JSON, by its option's name; absent what the spec does not say."""
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
    """The last day."""


class AuditRun(Model):
    """One run, as its pod tells it."""

    model_config = Status.model_config

    name: str = Field(default="", max_length=253)
    """Of the Job or SparkApplication."""
    state: str = Field(default="", max_length=32)
    """Pending, Running, Retrying, Succeeded, Failed or Deleted. Pending until the container of its pod has begun.
    Deleted if its Job or SparkApplication was deleted before the run ended."""
    started: str | None = Field(default=None, max_length=32)
    """When the container of its pod began; absent before."""
    finished: str | None = Field(default=None, max_length=32)
    """When it ended."""


class AuditPipelineStatus(Status):
    last_run: AuditRun | None = None
    """The newest run."""
    last_success_time: str | None = Field(default=None, max_length=32)
    """When a run last ended well; what is said below is of that run."""
    last_schedule_time: str | None = Field(default=None, max_length=32)
    """The time of the schedule that the operator last made a SparkApplication for; Jobs are made by Kubernetes."""
    last_window: AuditWindow | None = None
    """The first and the last day that the results have, whichever of them the run computed."""
    events: int | None = None
    """Events that the audit log has of these days."""
    rows: Annotated[dict[str, int], Field(max_length=TABLES_MAX)] | None = None
    """Rows that the run wrote, by table: only of the days that it computed, where a table is by day."""
    missing: int | None = None
    """Events that the audit log itself says are missing in these days."""
    holes: int | None = None
    """Numbers of events that nothing tells of in these days: the segments that had them are not there."""
    quarantined_files: int | None = None
    """Files of segments that were set aside: damaged, of an unknown version, or of a clock that is wrong."""
    complete: str = Field(default="", max_length=16)
    """True when nothing is missing, False when something is, Unknown before a run has said so."""
    report_location: str | None = Field(default=None, max_length=2048)
    """Where the report of the last run that ended well is."""
    last_error: str | None = Field(default=None, max_length=1024)
    """The first line of what went wrong in the newest run; absent when nothing has."""
    progress: str | None = Field(default=None, max_length=1024)
    """Since when a run is running, and how long the one before it took; for one that is Pending, why its pod does not
    start."""
    took_seconds: float | None = None
    """How long the last run that ended well took, as it says itself."""


class AuditPipeline(Resource):
    """Computes what a cluster's audit log answers: traffic, cost, objectives, idle topics, storms, and a report."""

    plural: ClassVar = "auditpipelines"
    short_name: ClassVar = "ap"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Schedule", json_path=".spec.schedule"),
        PrinterColumn(name="Run", json_path=".status.lastRun.state"),
        PrinterColumn(name="Success", json_path=".status.lastSuccessTime", type="date"),
        PrinterColumn(name="Complete", json_path=".status.complete"),
        PrinterColumn(name="Report", json_path=".status.reportLocation", priority=1),
        READY_COLUMN,
        REASON_COLUMN,
        AGE_COLUMN,
        MESSAGE_COLUMN,
    )
    rules: ClassVar = (
        Rule(
            cel=f"self.metadata.name.matches('{NAME_PATTERN}')",
            message="the name of an AuditPipeline must be at most 40 lower-case letters, digits and '-', begin with a"
            " letter and not end with '-': names of Jobs and pods begin with it",
            holds=lambda model: re.fullmatch(NAME_PATTERN, model.metadata.name) is not None,
        ),
    )

    kind: Literal["AuditPipeline"] = "AuditPipeline"
    spec: AuditPipelineSpec
    """What is computed, when, and where it goes."""
    status: AuditPipelineStatus = Field(default_factory=AuditPipelineStatus)
    """What the runs said."""
