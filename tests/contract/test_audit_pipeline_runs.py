"""A run of an AuditPipeline as the operator starts it, checked against the pipeline, which shares no code with it.

The interface is the pipeline's command line, the files that it receives, and the summary that it leaves.
"""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from audit_pipeline.__main__ import main, parser
from audit_pipeline.commands.commands import DAYS_MAX
from audit_pipeline.jobs.session import LOCAL, LOCAL_CONFIG
from audit_pipeline.results.settings import (
    RESOURCES,
    WINDOW_DAYS,
    Objective,
    StormLimits,
    read_mirrors,
    read_objectives,
    read_prices,
    read_storms,
)
from sluicegate_operator.api import AuditPipeline, BrokerCluster, parse_resource
from sluicegate_operator.api.models.audit_pipeline import AuditObjective, AuditPipelineSpec, AuditPrices, AuditStorms
from sluicegate_operator.planning.pipelines.pipelines import pipeline_children, plan_pipeline
from sluicegate_operator.planning.pipelines.run_summary import Summary, read_summary
from sluicegate_operator.resources.audit.audit_files import THEN
from sluicegate_operator.resources.audit.audit_spark import SPARK_VERSION
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.manifests.pipeline_manifests import FULL, pipeline
from tools.pins import parse

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]


def children(document: Json) -> list[dict[str, Any]]:
    found, of = parse_resource(document), parse_resource(cluster(audit={"landing": {"claimName": "audit"}}))
    assert isinstance(found, AuditPipeline)
    assert isinstance(of, BrokerCluster)
    places = plan_pipeline(found, of, NOW).places
    assert places is not None
    return pipeline_children(found, places)


def commands(document: Json) -> list[argparse.Namespace]:
    """Arguments of each command as the pipeline parses them; an unknown command ends the test."""
    _, cron_job = children(document)
    [container] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    found: list[list[str]] = [[]]
    for word in container["args"][1:]:
        if word == THEN:
            found.append([])
        else:
            found[-1].append(word)
    return [parser().parse_args(words) for words in found]


def file(document: Json, name: str) -> str:
    text: str = children(document)[0]["data"][f"{name}.json"]
    return text


def test_the_pipeline_knows_every_word_that_it_is_given() -> None:
    build, report = commands(FULL | {"spec": FULL["spec"] | {"report": True}})
    assert build.source == ["s3://audit/shop?region=eu-west-1"]
    assert (build.results, build.retention_days) == ("s3://answers/shop?region=eu-west-1", 400)
    files = {name: str(getattr(build, name)) for name in ("prices", "objectives", "mirrors", "storms")}
    assert files == {name: f"/etc/sluicegate-audit/{name}.json" for name in files}
    assert str(build.summary) == "/dev/termination-log"
    assert (report.results, report.publish) == (build.results, True)
    assert [name for _, name in report.cluster_name] == ["default/shop"]


def test_a_pipeline_without_settings_passes_no_files() -> None:
    build, _ = commands(pipeline())
    assert (build.prices, build.objectives, build.mirrors, build.storms) == (None, None, None, None)


def test_the_pipeline_parses_prices_and_storm_limits_as_written() -> None:
    prices = read_prices(file(FULL, "prices"))
    assert prices.currency == "EUR"
    assert prices.price == {
        "ingress": 0.02,
        "egress": 0.09,
        "requests": 1.0,
        "storage": 0.1,
        "partitions": 0.0015,
    }
    orders, everything = read_objectives(file(FULL, "objectives"))
    assert orders == Objective("orders", "Produce", 50.0, 0.999, 30, topic="orders")
    assert everything == Objective("all", "Fetch", 0.5, 0.99, 7, principal="User:a")
    eu, copy = read_mirrors(file(FULL, "mirrors"))
    assert (eu.name, eu.prefix, eu.topics) == ("eu", "", ())
    assert (copy.source_cluster, copy.prefix, copy.topics) == (copy.mirror_cluster, "copy.", ("orders", "eu.*"))
    assert read_storms(file(FULL, "storms")) == StormLimits(connections=500, held=50)
    assert read_storms(file(pipeline(storms={"held": 5}), "storms")) == StormLimits(held=5)


def test_every_price_that_the_pipeline_knows_can_be_said() -> None:
    assert AuditPrices.model_fields.keys() == {"currency", *(key for key, _ in RESOURCES.values())}


def test_defaults_of_operator_and_pipeline_are_equal() -> None:
    assert AuditObjective.model_fields["window_days"].default == WINDOW_DAYS
    for name, value in asdict(StormLimits()).items():
        assert f"{value} if absent" in (AuditStorms.model_fields[name].description or "")
    bounds = AuditPipelineSpec.model_fields["retention_days"].metadata
    assert [bound.le for bound in bounds if hasattr(bound, "le")] == [DAYS_MAX]


def test_spark_in_the_pod_of_a_job_is_set_as_on_a_laptop() -> None:
    _, cron_job = children(pipeline())
    [container] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    command = container["command"]
    conf = dict(command[at + 1].split("=", 1) for at, word in enumerate(command) if word == "--conf")
    assert command[:3] == ["spark-submit", "--master", LOCAL]
    memory = command[command.index("--driver-memory") + 1]
    assert (memory, LOCAL_CONFIG["spark.driver.memory"]) == ("1024m", "1g")
    del conf["spark.local.dir"]
    assert conf == {key: value for key, value in LOCAL_CONFIG.items() if key != "spark.driver.memory"}


def test_the_operator_reads_the_summary_of_a_run_that_fails(tmp_path: Path) -> None:
    summary, nowhere = tmp_path / "summary", tmp_path / "nowhere"
    words = ["build", "--source", str(nowhere), "--results", str(tmp_path / "r"), "--summary", str(summary)]
    assert main(words, Event()) != 0
    read = read_summary(summary.read_text())
    assert read is not None
    assert read.error is not None
    assert str(nowhere) in read.error
    assert read.took_s is not None


SAYS = {
    "window",
    "events",
    "rows",
    "missing",
    "holes",
    "quarantinedFiles",
    "error",
    "tookSeconds",
}


def test_the_summary_has_a_key_for_all_that_the_operator_looks_for(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    main(["build", "--source", str(tmp_path / "no"), "--results", str(tmp_path), "--summary", str(summary)], Event())
    assert json.loads(summary.read_text()).keys() >= SAYS
    assert len(Summary.__dataclass_fields__) == len(SAYS)


def test_spark_operators_are_told_the_version_of_spark_that_is_tested() -> None:
    assert parse((ROOT / "constraints.txt").read_text())["pyspark"].version == SPARK_VERSION
