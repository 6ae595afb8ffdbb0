"""The chart's parts for Prometheus and Grafana: off by default, and the repository's files if enabled."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.obtain.helm import CHART, HelmError, render

pytestmark = pytest.mark.full

Json = dict[str, Any]
ALL = tuple(
    f"monitoring.{part}.enabled=true" for part in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboards")
)


def rendered(*values: str) -> dict[tuple[str, str], Json]:
    found = [one for one in yaml.safe_load_all(render(*values)) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


@pytest.fixture(scope="module")
def everything() -> dict[tuple[str, str], Json]:
    return rendered(*ALL, 'monitoring.labels={"release": "prometheus"}', 'monitoring.interval="15s"')


def test_objects_of_foreign_kinds_are_off_by_default() -> None:
    kinds = {kind for kind, _ in rendered()}
    assert not kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"}


def test_monitors_and_rules_have_the_labels_that_a_prometheus_selects_by(
    everything: dict[tuple[str, str], Json],
) -> None:
    for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule"):
        [manifest] = [one for (found, _), one in everything.items() if found == kind]
        assert manifest["metadata"]["labels"]["release"] == "prometheus"


def test_the_service_monitor_finds_the_service(everything: dict[tuple[str, str], Json]) -> None:
    monitor = everything["ServiceMonitor", "sluicegate-operator"]["spec"]
    service = everything["Service", "sluicegate-operator"]
    assert service["metadata"]["labels"].items() >= monitor["selector"]["matchLabels"].items()
    [endpoint] = monitor["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["interval"] == "15s"
    with pytest.raises(HelmError, match=r"set metrics\.service\.enabled to true"):
        render(ALL[0], "metrics.service.enabled=false")


def test_pods_are_looked_for_where_clusters_are(everything: dict[tuple[str, str], Json]) -> None:
    def where(manifests: dict[tuple[str, str], Json]) -> Json:
        selector: Json = manifests["PodMonitor", "sluicegate-nodes"]["spec"]["namespaceSelector"]
        return selector

    assert where(everything) == {"any": True}
    assert where(rendered(ALL[1], 'watch.namespace="kafka"')) == {"matchNames": ["kafka"]}


def test_the_rules_are_those_of_the_file_but_for_what_is_left_out(everything: dict[tuple[str, str], Json]) -> None:
    groups = yaml.safe_load((CHART / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    assert everything["PrometheusRule", "sluicegate"]["spec"]["groups"] == groups
    without = rendered(ALL[2], 'monitoring.prometheusRule.disabled=["SluicegateRollBlocked"]')
    names = [
        [rule["alert"] for rule in group["rules"]]
        for group in without["PrometheusRule", "sluicegate"]["spec"]["groups"]
    ]
    assert names == [
        [rule["alert"] for rule in group["rules"] if rule["alert"] != "SluicegateRollBlocked"] for group in groups
    ]
    with pytest.raises(HelmError, match=r"no alert has the name SluicegateRoll\n"):
        render(ALL[2], 'monitoring.prometheusRule.disabled=["SluicegateRoll"]')


def test_dashboards_are_in_config_maps_as_they_are(everything: dict[tuple[str, str], Json]) -> None:
    files = sorted((CHART / "dashboards").glob("*.json"))
    assert len(files) == 3
    for path in files:
        manifest = everything["ConfigMap", f"sluicegate-dashboard-{path.stem}"]
        assert manifest["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(manifest["data"][path.name]) == json.loads(Path(path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("monitoring.podMonitors.enabled=true", "'podMonitors'"),
        ('monitoring.interval="often"', "/monitoring/interval"),
        ('monitoring.prometheusRule.disabled=["rolls"]', "/monitoring/prometheusRule/disabled"),
    ],
)
def test_what_is_mistyped_is_refused(value: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        render(value)
    assert said in str(refused.value)
