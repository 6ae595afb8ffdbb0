"""The chart's alerts, by promtool's rule tests: each fires, describes the fault, and ends; near misses do not fire."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.manifests.alert_cases import CASES, AlertCase
from tests.support.processes.prometheus import check_rule_tests, check_rules

ALERTS = Path(__file__).resolve().parents[3] / "charts" / "sluicegate" / "alerts.yaml"
RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
MINUTES = 30


def at(time: str, case: AlertCase, *found: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": time, "alertname": case.alert, "exp_alerts": list(found)}


def as_promtool_reads_it(case: AlertCase) -> list[dict[str, Any]]:
    rule = RULES[case.alert]
    fired = {
        "exp_labels": rule["labels"] | dict(case.labels),
        "exp_annotations": rule["annotations"] | {"description": case.description},
    }
    bad = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [at(case.not_yet, case), at(case.fires, case, fired), at(case.ends, case)],
    }
    near = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in case.near.items()],
        "alert_rule_test": [at(f"{seconds}s", case) for seconds in range(0, MINUTES * 60, 15)],
    }
    return [bad, near] if case.near else [bad]


def run(folder: Path, *cases: AlertCase) -> None:
    """Run each alert in a separate file with only its rule.

    With twenty rules in each file, promtool would take twenty times as long.
    """
    files = []
    for alert in {case.alert: None for case in cases}:
        rule, path = folder / f"{alert}.yaml", folder / f"{alert}-test.yaml"
        rule.write_text(yaml.safe_dump({"groups": [{"name": alert, "rules": [RULES[alert]]}]}))
        tests = [test for case in cases if case.alert == alert for test in as_promtool_reads_it(case)]
        path.write_text(yaml.safe_dump({"rule_files": [str(rule)], "evaluation_interval": "15s", "tests": tests}))
        files.append(path)
    check_rule_tests(*files)


@pytest.mark.full
def test_prometheus_reads_the_rules() -> None:
    check_rules(ALERTS)


@pytest.mark.full
def test_every_alert_fires_says_so_and_ends_and_a_near_miss_does_not_fire(tmp_path: Path) -> None:
    run(tmp_path, *CASES)
    assert {case.alert for case in CASES if case.near} == RULES.keys()


@pytest.mark.full
def test_a_rule_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.alert == "SluicegateBrokerFenced"]
    with pytest.raises(AssertionError, match="SluicegateBrokerFenced"):
        run(tmp_path, AlertCase(case.alert, case.series, "else", "4m", case.labels, "8m", case.near))


def test_alerts_have_unique_names_a_severity_and_an_action() -> None:
    names = Counter(
        rule["alert"]
        for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    )
    assert max(names.values()) == 1
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert rule["annotations"].keys() == {"summary", "description", "action"}, name
