"""The generated files: no drift, and the API server's rules for a structural schema."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS
from broker_runtime.config.declaring.definition import UpdateMode
from sluicegate_operator.api.configs import config_keys
from sluicegate_operator.api.crd import definition, render_crds
from sluicegate_operator.api.kinds import KINDS
from tools.resources_page import render_reference

ROOT = Path(__file__).resolve().parents[4]


def test_crds_have_not_drifted() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "crds").glob("*.yaml")}
    assert committed == render_crds(), "run `make crds` and commit the result"


def test_the_reference_page_has_not_drifted() -> None:
    page = (ROOT / "docs" / "reference" / "resources.md").read_text(encoding="utf-8")
    assert page == render_reference(), "run `make crds` and commit the result"


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


@pytest.fixture(params=sorted(KINDS))
def version(request: pytest.FixtureRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(yaml.safe_dump(definition(request.param)))
    return dict(loaded["spec"]["versions"][0])


def test_every_node_has_a_type_and_every_field_a_description(version: dict[str, Any]) -> None:
    for path, node in nodes(version["schema"]["openAPIV3Schema"]):
        assert "type" in node, path
        if not path.endswith("[]") and path != ".metadata":
            assert node["description"].endswith("."), path


def test_everything_in_a_spec_is_bounded(version: dict[str, Any]) -> None:
    bounds = {"string": {"maxLength", "enum"}, "array": {"maxItems"}, "integer": {"maximum"}}
    for path, node in nodes(version["schema"]["openAPIV3Schema"]["properties"]["spec"]):
        needed = {"maxProperties"} if "additionalProperties" in node else bounds.get(node["type"])
        assert needed is None or needed & set(node), path


def test_an_object_that_nobody_has_seen_is_not_finished(version: dict[str, Any]) -> None:
    root = version["schema"]["openAPIV3Schema"]
    assert root["properties"]["status"]["default"] == {"observedGeneration": -1}
    assert version["subresources"].keys() - {"scale"} == {"status"}


def test_no_default_is_empty_or_false(version: dict[str, Any]) -> None:
    for path, node in nodes(version["schema"]["openAPIV3Schema"]):
        assert node.get("default", "something"), path


def test_rules_speak_in_sentences(version: dict[str, Any]) -> None:
    for path, node in nodes(version["schema"]["openAPIV3Schema"]):
        for rule in node.get("x-kubernetes-validations", []):
            assert 20 < len(rule["message"]) < 400, path
            assert "\n" not in rule["message"], path


ANNOTATIONS_MAX_BYTES = 256 * 1024
"""The API server's limit for all annotations of one object."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_crd_is_small_enough_for_kubectl_apply(kind: str) -> None:
    """kubectl keeps the object as JSON in an annotation; half of the space stays for later versions."""
    assert len(json.dumps(definition(kind))) < ANNOTATIONS_MAX_BYTES / 2


def test_short_names_are_the_documented_ones() -> None:
    names = [definition(kind)["spec"]["names"] for kind in KINDS]
    assert [name["shortNames"] for name in names] == [["ap"], ["bc"], ["bl"], ["br"], ["cq"], ["usr"], ["op"], ["tp"]]
    assert all(name["categories"] == ["sluicegate"] for name in names)


def test_no_short_name_is_one_of_strimzis() -> None:
    strimzi = {"k", "kb", "kc", "kctr", "kmm2", "knp", "kr", "kt", "ku", "sps"}
    assert not strimzi & {kind.model.short_name for kind in KINDS.values()}


def test_a_cluster_is_scaled_by_its_brokers() -> None:
    scaled = {kind: definition(kind)["spec"]["versions"][0]["subresources"].get("scale") for kind in KINDS}
    assert {kind: scale for kind, scale in scaled.items() if scale} == {
        "BrokerCluster": {
            "specReplicasPath": ".spec.brokers.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    }
    properties = definition("BrokerCluster")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["spec"]["properties"]["brokers"]["properties"]["replicas"]["type"] == "integer"
    assert properties["status"]["properties"]["replicas"]["type"] == "integer"
    assert properties["status"]["properties"]["selector"]["type"] == "string"


@pytest.mark.parametrize("kind", KINDS)
def test_plain_get_says_why(kind: str) -> None:
    """The reason is shown without -o wide; the message, which may be long, only with it."""
    columns = {column.name: column.priority for column in KINDS[kind].model.columns}
    assert columns["Reason" if kind != "BrokerRegistration" else "State"] == 0
    assert columns["Message"] == 1


def test_the_keys_of_config_are_the_brokers_own() -> None:
    written_down = (
        *config_keys.OPERATOR_KEYS,
        *config_keys.LIMIT_KEYS,
        *config_keys.WINDOW_KEYS,
        *config_keys.TLS_KEYS,
        *config_keys.AUTHENTICATION_KEYS,
        "observer.class.names",
        *config_keys.BROKER_CONFIG,
    )
    assert sorted(written_down) == sorted(BROKER_KEYS)
    assert sorted(config_keys.TOPIC_CONFIG) == sorted(TOPIC_KEYS)


def test_keys_are_dynamic_where_the_broker_says_so() -> None:
    cluster_wide = {key for key in config_keys.BROKER_CONFIG if BROKER_KEYS[key].mode is UpdateMode.CLUSTER_WIDE}
    assert cluster_wide == config_keys.DYNAMIC_CONFIG_KEYS
