"""The pod of a storm: as docs/storm-on-kubernetes.md shows it, and as restricted as Kubernetes allows."""

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from sluicegate_operator.resources.nodes.statefulset import DEFAULT_IMAGE
from sluicegate_operator.resources.storm_pod import STORM_LABELS, StormRun, storm_pod

PAGE = Path(__file__).parents[4] / "docs" / "storm-on-kubernetes.md"


def built(*arguments: str) -> Any:
    return storm_pod(StormRun("default", "run", DEFAULT_IMAGE, arguments, deadline_s=300))


def test_the_page_shows_the_pod_that_the_command_makes() -> None:
    [shown] = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    [container] = shown["spec"]["containers"]
    made = built(*container["command"][2:])
    for field, value in shown["spec"].items():
        assert made["spec"][field] == value, field
    assert shown["metadata"]["labels"].items() <= STORM_LABELS.items()


def test_the_page_names_listeners_and_quotas_of_the_quickstart() -> None:
    text, quickstart = PAGE.read_text(), PAGE.parents[1] / "examples" / "quickstart"
    said = [document for file in quickstart.glob("*.yaml") for document in yaml.safe_load_all(file.read_text())]
    listener = next(document for document in said if document["kind"] == "BrokerListener")
    quota = next(document for document in said if document["kind"] == "ConnectionQuota")
    assert f"listener/{listener['spec']['name']}" in text
    assert f"{listener['metadata']['name']}.default.svc:{listener['spec']['port']}" in text
    assert text.count(quota["metadata"]["name"]) >= 3


def test_a_pod_has_its_run_its_deadline_and_no_account() -> None:
    pod = built(*shlex.split("--to a:1 --rate 3"))
    assert pod["metadata"]["labels"]["sluicegate.dev/storm"] == "run"
    spec = pod["spec"]
    assert (spec["activeDeadlineSeconds"], spec["automountServiceAccountToken"]) == (300, False)
    assert spec["containers"][0]["command"] == ["sluicegate", "storm", "--to", "a:1", "--rate", "3"]
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
