"""The chart's parts for Prometheus and Grafana in a real run.

Monitors find the pods, alerts and dashboards find their metrics, and the API server accepts the manifests.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.waiting import wait_for
from e2e.world.monitoring import SCRAPE_S, MonitoredRun, cluster_labels, monitored_run, rendered
from e2e.world.shop import BROKERS, Shop
from tests.support.dashboards.dashboards import DashboardQuery, queries, read_dashboards
from tests.support.obtain.crds.prometheus_operator_crds import prometheus_operator_crds

ALERTS = Path(__file__).parents[2] / "charts" / "sluicegate" / "alerts.yaml"
STORM_S = 9.0
"""At the end of the storm an acceptor was blocked for more than half of the last ten seconds."""
RATE_INTERVAL = "5s"
WITHOUT_SERIES = {
    "Nodes restarted and brokers fenced": "no node has been rolled since the operator was started",
    "Requests that ended their connection": "none did",
}
"""Panels that may have a query without data in this run, and the reasons."""
_METRIC = re.compile(r"\b(?:kafka|sluicegate|process|python)_\w+")


@pytest.fixture(scope="module")
def run(standing_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredRun]:
    standing_shop.settle()
    with monitored_run(standing_shop, tmp_path_factory.mktemp("prometheus"), STORM_S) as found:
        yield found


def alert_expressions() -> dict[str, str]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def test_every_node_is_scraped_with_the_labels_that_alerts_and_dashboards_go_by(run: MonitoredRun) -> None:
    nodes = [found["metric"] for found in run.prometheus.query('up{role=~"broker|controller"}')]
    assert sorted(node["pod"] for node in nodes) == [
        *(f"shop-brokers-{number}" for number in range(BROKERS)),
        "shop-controllers-0",
    ]
    assert all(node.items() >= cluster_labels().items() for node in nodes)
    [operator] = run.prometheus.query('up{role="operator"}')
    assert operator["value"][1] == "1"
    [quotas] = run.prometheus.query('sluicegate_quotas{state="Enforced"}')
    assert quotas["metric"].items() >= cluster_labels().items()


def test_every_metric_of_an_alert_or_dashboard_is_exported(run: MonitoredRun) -> None:
    """Also metrics without series in this run: their process at least exports their type.

    There, a counter of the operator has its name without the suffix of its series.
    """
    exported = set(run.prometheus.ask("metadata")) | run.prometheus.metric_names()
    named = {*alert_expressions().values(), *(query.expression for query in all_queries())}
    wanted = {metric for expression in named for metric in _METRIC.findall(expression)}
    assert len(wanted) > 40
    assert {metric for metric in wanted if not exported & {metric, metric.removesuffix("_total")}} == set()


def all_queries() -> list[DashboardQuery]:
    return [query for dashboard in read_dashboards() for query in queries(dashboard, RATE_INTERVAL)]


def test_every_query_of_every_dashboard_finds_something(run: MonitoredRun) -> None:
    found = {
        query: run.prometheus.series(query.expression, run.start_s, run.end_s, SCRAPE_S) for query in all_queries()
    }
    nothing = [query for query, series in found.items() if not series]
    assert [str(query) for query in nothing if query.panel not in WITHOUT_SERIES] == []


def test_a_storm_fires_its_own_alert_only(run: MonitoredRun) -> None:
    expressions = alert_expressions()
    found = {
        name
        for name, expression in expressions.items()
        if run.prometheus.series(expression, run.start_s, run.end_s, SCRAPE_S)
    }
    assert "SluicegateConnectionStorm" in found
    # They are pending for less than the alert waits: during a change of a limit, on a loaded machine, and while groups
    # load.
    pending = {"SluicegateQuotaNotEnforced", "SluicegateEventLoopHeld", "SluicegateGroupsNotServed"}
    assert found <= {"SluicegateConnectionStorm", *pending}


def test_the_api_server_takes_the_manifests(standing_shop: Shop) -> None:
    plane = standing_shop.plane
    crds = [argument for path in prometheus_operator_crds() for argument in ("-f", str(path))]
    plane.kubectl("apply", "--server-side", *crds)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    manifests = rendered("podMonitor", "serviceMonitor", "prometheusRule", "dashboards")
    kinds = [manifest["kind"] for manifest in manifests]
    assert sorted(kinds) == ["ConfigMap"] * 3 + ["PodMonitor", "PrometheusRule", "ServiceMonitor"]
    for manifest in manifests:
        manifest["metadata"]["namespace"] = "default"
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    wait_for(
        "monitors and rules are accepted",
        lambda: plane.kubectl(
            "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-", input=listed
        ),
    )
