"""The examples for Flux and Argo CD: CRDs before the operator before clusters, each path there and as it says."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api import load_manifests
from sluicegate_operator.api.schema.metadata import GROUP

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "gitops"
ORDER = ["sluicegate-crds", "sluicegate-operator", "sluicegate-clusters"]
Json = dict[str, Any]


def documents(file: Path) -> list[Json]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


KUSTOMIZATIONS = {
    one["metadata"]["name"]: one["spec"]
    for one in documents(EXAMPLES / "flux" / "sluicegate.yaml")
    if one["kind"] == "Kustomization"
}
APPLICATIONS = {one["metadata"]["name"]: one for one in documents(EXAMPLES / "argocd" / "applications.yaml")}
OPERATOR_FOLDER = ROOT / "examples" / "gitops" / "flux" / "operator"
[_, HELM_RELEASE] = documents(OPERATOR_FOLDER / "operator.yaml")


def test_flux_continues_once_the_preceding_kustomization_is_ready() -> None:
    assert list(KUSTOMIZATIONS) == ORDER
    for before, name in pairwise(ORDER):
        assert KUSTOMIZATIONS[name]["dependsOn"] == [{"name": before}]
        assert KUSTOMIZATIONS[before]["wait"] is True


def test_argo_cd_goes_on_in_waves() -> None:
    waves = {
        name: int(one["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]) for name, one in APPLICATIONS.items()
    }
    assert sorted(waves, key=lambda name: waves[name]) == ORDER
    assert len(set(waves.values())) == len(ORDER)


def test_crds_are_never_pruned_and_come_once() -> None:
    """Twice would mean two owners of each; pruning a CRD deletes all objects of its kind."""
    assert KUSTOMIZATIONS["sluicegate-crds"]["prune"] is False
    assert APPLICATIONS["sluicegate-crds"]["spec"]["syncPolicy"]["automated"]["prune"] is False
    assert HELM_RELEASE["spec"]["values"]["crds"]["install"] is False
    assert APPLICATIONS["sluicegate-operator"]["spec"]["source"]["helm"]["valuesObject"]["crds"]["install"] is False


def test_paths_of_the_examples_exist_and_are_valid() -> None:
    flux = {name: ROOT / spec["path"] for name, spec in KUSTOMIZATIONS.items()}
    argo_cd = {name: ROOT / one["spec"]["source"]["path"] for name, one in APPLICATIONS.items()}
    assert flux["sluicegate-operator"].resolve() == OPERATOR_FOLDER
    for paths in (flux, argo_cd):
        kinds = {one["kind"] for file in paths["sluicegate-crds"].glob("*.yaml") for one in documents(file)}
        assert kinds == {"CustomResourceDefinition"}
        clusters = load_manifests([paths["sluicegate-clusters"]])
        assert clusters.clusters
        assert clusters.errors == ()


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: file.name)
def test_no_object_of_our_kinds_precedes_the_operator(file: Path) -> None:
    """Users apply what a tool needs, and it contains none of our kinds."""
    assert not [one for one in documents(file) if str(one.get("apiVersion", "")).startswith(GROUP)]


def test_the_examples_refer_to_the_existing_chart() -> None:
    chart = ROOT / "charts" / "sluicegate" / "Chart.yaml"
    assert (ROOT / HELM_RELEASE["spec"]["chart"]["spec"]["chart"]).resolve() == chart.parent
    assert (ROOT / APPLICATIONS["sluicegate-operator"]["spec"]["source"]["path"]).resolve() == chart.parent
