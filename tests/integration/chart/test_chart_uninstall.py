"""The chart's last job: its rights, and that it has no objects before an uninstall."""

from typing import Any

import pytest
import yaml

from tests.support.obtain.helm import NAMESPACE, render

pytestmark = pytest.mark.full

TEMPLATE = ("release-topics.yaml",)
Json = dict[str, Any]


def rendered(*values: str) -> list[Json]:
    return [one for one in yaml.safe_load_all(render(*values, show_only=TEMPLATE)) if one]


def rules(documents: list[Json]) -> list[tuple[str, str, list[str], list[str]]]:
    """Return kind, namespace, resources and verbs of each rule."""
    roles = [one for one in documents if one["kind"] in ("Role", "ClusterRole")]
    return [
        (role["kind"], role["metadata"].get("namespace", ""), rule["resources"], rule["verbs"])
        for role in roles
        for rule in role["rules"]
    ]


TOPICS = (["topics", "kafkausers"], ["get", "list", "patch"])
LEASES = (["leases"], ["get", "create", "update"])


@pytest.mark.parametrize(
    ("values", "granted", "arguments"),
    [
        ((), [("ClusterRole", "", *TOPICS), ("Role", NAMESPACE, *LEASES)], []),
        (
            ("watch.ownNamespace=true",),
            [("Role", NAMESPACE, *TOPICS), ("Role", NAMESPACE, *LEASES)],
            ["--namespace", NAMESPACE],
        ),
        (
            ('watch.namespace="retail"',),
            [("Role", "retail", *TOPICS), ("Role", "retail", *LEASES)],
            ["--namespace", "retail"],
        ),
    ],
)
def test_the_job_may_release_topics_in_the_operators_namespaces(
    values: tuple[str, ...], granted: Any, arguments: Any
) -> None:
    documents = rendered(*values)
    assert rules(documents) == granted
    [job] = [one for one in documents if one["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["--release-topics", *arguments]
    account = {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": NAMESPACE}
    bindings = [one for one in documents if one["kind"].endswith("Binding")]
    assert [one["subjects"] for one in bindings] == [[account]] * len(bindings)
    roles = {(one["kind"], one["metadata"].get("namespace")) for one in documents if one["kind"].endswith("Role")}
    assert {(one["roleRef"]["kind"], one["metadata"].get("namespace")) for one in bindings} == roles


def test_all_objects_are_post_delete_hooks_and_the_job_is_created_last() -> None:
    documents = rendered()
    notes = [one["metadata"]["annotations"] for one in documents]
    assert {note["helm.sh/hook"] for note in notes} == {"post-delete"}
    assert {note["helm.sh/hook-delete-policy"] for note in notes} == {"before-hook-creation,hook-succeeded"}
    weights = {one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in documents}
    assert [kind for kind, weight in weights.items() if weight == max(weights.values())] == ["Job"]


def test_it_can_be_left_out() -> None:
    assert "release-topics" not in render("uninstall.releaseTopics=false")
