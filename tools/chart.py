"""Writes deploy/ from the chart, and the chart's copy of the CRDs from the models; tests fail when they have drifted.

`python -m tools.chart` does both and needs Helm (`make helm`); `python -m tools.chart crds` writes only the CRDs,
without Helm.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from sluicegate_operator.api.crd import render_crds
from tests.support.obtain.helm import CHART, NAMESPACE, render

ROOT = Path(__file__).resolve().parent.parent
CRDS = CHART / "files" / "crds"
DEPLOY = ROOT / "deploy"

_HEAD = "# Rendered from charts/sluicegate by `make chart`; do not edit.\n"
_NAMESPACE = f"""apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""
_KUSTOMIZATION = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- rbac.yaml
- operator.yaml
"""
_RIGHTS = ("serviceaccount.yaml", "rbac.yaml")
_PROGRAM = ("service.yaml", "networkpolicy.yaml", "deployment.yaml")


def chart_crds() -> dict[str, str]:
    """Return the CRDs of crds/ by file name, annotated so that uninstalling the chart keeps them."""
    kept = "\nmetadata:\n  annotations:\n    helm.sh/resource-policy: keep\n"
    return {name: text.replace("\nmetadata:\n", kept, 1) for name, text in render_crds().items()}


def manifests() -> dict[str, str]:
    """Return the manifests of deploy/ by file name. Raises HelmError."""
    everywhere, one = _templates("guard.enabled=true"), _templates("watch.ownNamespace=true")
    return {
        "rbac.yaml": _HEAD + _NAMESPACE + "---\n" + _joined(everywhere, (*_RIGHTS, "people.yaml")),
        "operator.yaml": _HEAD + _joined(everywhere, _PROGRAM),
        "guard.yaml": _HEAD + _joined(everywhere, ("guard.yaml",)),
        "kustomization.yaml": _HEAD + _KUSTOMIZATION,
        "namespaced/rbac.yaml": _HEAD + _of_one_namespace(_joined(one, _RIGHTS)),
        "namespaced/operator.yaml": _HEAD + _of_one_namespace(_joined(one, _PROGRAM)),
        "namespaced/kustomization.yaml": _HEAD + _KUSTOMIZATION,
    }


def _templates(*values: str) -> dict[str, list[str]]:
    """Return template's file name -> texts rendered from it."""
    found: dict[str, list[str]] = defaultdict(list)
    for part in render("crds.install=false", *values).split("---\n# Source: ")[1:]:
        source, _, text = part.partition("\n")
        found[source.rpartition("/")[2]].append(text)
    return found


def _joined(templates: Mapping[str, list[str]], names: tuple[str, ...]) -> str:
    return "---\n".join(text for name in names for text in templates[name])


def _of_one_namespace(text: str) -> str:
    """Remove the namespace from manifests: the user names it when applying them."""
    return re.sub(rf"^ +namespace: {NAMESPACE}\n", "", text, flags=re.MULTILINE)


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    _write(CRDS, chart_crds())
    if arguments != ["crds"]:
        _write(DEPLOY, manifests())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
