"""The chart as people install it: lint, what its schema refuses, what it renders; and deploy/, made from it."""

import pytest
import yaml

from tests.support.helm import CHART, HelmError, helm, render
from tools.chart import DEPLOY, chart_crds, manifests


def test_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_deploy_has_not_drifted() -> None:
    rendered = manifests()
    found = {str(file.relative_to(DEPLOY)): file.read_text(encoding="utf-8") for file in DEPLOY.rglob("*.yaml")}
    assert found == rendered, "run `make chart` and commit the result"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('replicas="2"', "/replicas"),
        ("replica=2", "'replica'"),
    ],
)
def test_what_is_mistyped_is_refused(value: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        render(value)
    assert said in str(refused.value)


def test_crds_are_rendered_as_they_are() -> None:
    rendered = [one for one in yaml.safe_load_all(render(show_only=("crds.yaml",))) if one]
    assert rendered == [yaml.safe_load(text) for text in chart_crds().values()]
