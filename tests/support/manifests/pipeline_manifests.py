"""Manifests of AuditPipelines, as in `bad_manifests`."""

from typing import Any

from tests.support.manifests.bad_manifests import BadChange, BadManifest, GoodManifest, Json, manifest

SPARK = {"mode": "SparkApplication", "sparkOperator": "apache", "image": "registry.example.org/audit-spark:4.3.0"}


def pipeline(metadata_name: str = "daily", /, **spec: Any) -> Json:
    least = {"clusterRef": {"name": "shop"}, "results": {"claimName": "results"}}
    return manifest("AuditPipeline", least | spec, metadata_name)


FULL = pipeline(
    schedule="15 */2 * * mon-fri",
    suspend=True,
    source={"uri": "s3://audit/shop?region=eu-west-1"},
    results={"uri": "s3://answers/shop?region=eu-west-1"},
    secretName="audit-s3",
    prices={
        "currency": "EUR",
        "ingressPerGib": 0.02,
        "egressPerGib": 0.09,
        "requestsPerMillion": 1,
        "storagePerGibMonth": 0.1,
        "partitionPerHour": 0.0015,
    },
    objectives=[
        {"name": "orders", "api": "Produce", "latencyMs": 50, "target": 0.999, "topic": "orders"},
        {"name": "all", "api": "Fetch", "latencyMs": 0.5, "target": 0.99, "windowDays": 7, "principal": "User:a"},
    ],
    mirrors=[
        {"name": "eu", "sourceCluster": "AAAAAAAAAAAAAAAAAAAAAA", "mirrorCluster": "BBBBBBBBBBBBBBBBBBBBBB"},
        {
            "name": "self",
            "sourceCluster": "AAAAAAAAAAAAAAAAAAAAAA",
            "mirrorCluster": "AAAAAAAAAAAAAAAAAAAAAA",
            "prefix": "copy.",
            "topics": ["orders", "eu.*"],
        },
    ],
    storms={"connections": 500, "held": 50},
    image="registry.example.org/audit:0.2.0",
    resources={"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "4Gi"}},
    retentionDays=400,
    segmentMs=5_000,
    report=False,
)
MIRROR = {"name": "eu", "sourceCluster": "a", "mirrorCluster": "b"}
OBJECTIVE = {"name": "orders", "api": "Produce", "latencyMs": 50, "target": 0.999}

GOOD_PIPELINES = (
    GoodManifest("a pipeline that says the least", pipeline()),
    GoodManifest("a pipeline with everything", FULL),
    GoodManifest("a pipeline of Apache's Spark operator", pipeline(**SPARK, executors=4, serviceAccountName="spark")),
    GoodManifest("a pipeline of kubeflow's Spark operator", pipeline(**SPARK | {"sparkOperator": "kubeflow"})),
    *(
        GoodManifest(f"a schedule {schedule}", pipeline(schedule=schedule))
        for schedule in ("@daily", "0 0 1 jan *", "0,30 1-5/2 */2 * SUN", "5  4 * * 0")
    ),
)
BAD_PIPELINES = (
    *(
        BadManifest(f"a schedule {schedule}", pipeline(schedule=schedule), "spec.schedule", "five fields of cron")
        for schedule in ("* * * *  ", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 7", "@every 5m")
    ),
    BadManifest("a schedule with no step", pipeline(schedule="*/0 * * * *"), "spec.schedule", "five fields of cron"),
    BadManifest("no results", manifest("AuditPipeline", {"clusterRef": {"name": "shop"}}, "daily"), "spec.results"),
    BadManifest(
        "results in two places",
        pipeline(results={"claimName": "results", "uri": "s3://answers/shop"}),
        "spec.results",
        "set exactly one of uri (s3://bucket/path) and claimName",
    ),
    BadManifest("a source of no kind", pipeline(source={"uri": "hdfs://a/b"}), "spec.source.uri", "s3://bucket/path"),
    BadManifest("prices without a currency", pipeline(prices={"ingressPerGib": 1}), "spec.prices.currency"),
    BadManifest("a price below zero", pipeline(prices={"currency": "EUR", "egressPerGib": -1}), "egressPerGib"),
    BadManifest(
        "an objective of all requests",
        pipeline(objectives=[OBJECTIVE | {"target": 1}]),
        "spec.objectives[0].target",
        "target must be a share of all requests between 0 and 1",
    ),
    BadManifest(
        "two objectives of one name",
        pipeline(objectives=[OBJECTIVE, OBJECTIVE | {"api": "Fetch"}]),
        "spec.objectives",
        "must have different names",
    ),
    BadManifest(
        "a mirror of itself",
        pipeline(mirrors=[MIRROR, MIRROR | {"name": "self", "mirrorCluster": "a"}]),
        "spec.mirrors[1]",
        "a topic cannot be its own mirror",
    ),
    BadManifest(
        "two mirrors of one name", pipeline(mirrors=[MIRROR, MIRROR]), "spec.mirrors", "must have different names"
    ),
    BadManifest("storms of nothing", pipeline(storms={"held": 0}), "spec.storms.held"),
    BadManifest("a mode that is not", pipeline(mode="Cron"), "spec.mode"),
    BadManifest(
        "a SparkApplication for no operator",
        pipeline(mode="SparkApplication", image="audit"),
        "spec",
        "mode SparkApplication needs sparkOperator (apache or kubeflow) and image",
    ),
    BadManifest(
        "a Job for an operator", pipeline(sparkOperator="apache"), "spec.sparkOperator", "a Job is one pod; remove it"
    ),
    BadManifest("a Job with executors", pipeline(executors=3), "spec.executors", "a Job is one pod; remove it"),
    BadManifest(
        "a pull secret of a pipeline that is no name",
        pipeline(imagePullSecrets=["My Secret"]),
        "spec.imagePullSecrets",
        "each of imagePullSecrets must be the name of a Secret",
    ),
    BadManifest("a secret of no name", pipeline(secretName="a/b"), "spec.secretName", "must be the name of a Secret"),
    BadManifest("an image of no name", pipeline(image="A B"), "spec.image", "must be the name of a container image"),
    BadManifest("a pipeline of a long name", pipeline("d" * 41), "", "the name of an AuditPipeline must be at most 40"),
)
PIPELINE_CHANGES = (
    BadChange(
        "a pipeline moves to another cluster",
        pipeline(),
        pipeline(clusterRef={"name": "bank"}),
        "clusterRef cannot be changed: delete this AuditPipeline",
    ),
)
