"""Writes deploy/ from the chart, and the chart's copy of the CRDs from the models; tests fail when they have drifted.

`python -m tools.chart` does both and needs Helm (`make helm`); `python -m tools.chart crds` the second alone, without.
"""

import re
import sys
from pathlib import Path

from sluicegate_operator.api.crd import render_crds
from tests.support.helm import CHART, NAMESPACE, render

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
    """File name -> text: as in crds/, and kept when the chart is uninstalled."""
    kept = "\nmetadata:\n  annotations:\n    helm.sh/resource-policy: keep\n"
    return {name: text.replace("\nmetadata:\n", kept, 1) for name, text in render_crds().items()}


def manifests() -> dict[str, str]:
    """File name in deploy/ -> text. Raises HelmError."""
    return {
        "rbac.yaml": _HEAD + _NAMESPACE + _rendered((*_RIGHTS, "people.yaml")),
        "operator.yaml": _HEAD + _rendered(_PROGRAM).removeprefix("---\n"),
        "guard.yaml": _HEAD + _rendered(("guard.yaml",), "guard.enabled=true").removeprefix("---\n"),
        "kustomization.yaml": _HEAD + _KUSTOMIZATION,
        "namespaced/rbac.yaml": _HEAD + _of_one_namespace(_RIGHTS),
        "namespaced/operator.yaml": _HEAD + _of_one_namespace(_PROGRAM),
        "namespaced/kustomization.yaml": _HEAD + _KUSTOMIZATION,
    }


def _of_one_namespace(templates: tuple[str, ...]) -> str:
    """Whoever applies it says which namespace."""
    text = _rendered(templates, "watch.ownNamespace=true")
    return re.sub(rf"^ +namespace: {NAMESPACE}\n", "", text, flags=re.MULTILINE).removeprefix("---\n")


def _rendered(templates: tuple[str, ...], *values: str) -> str:
    """In the order of `templates`; Helm's comments say where each came from, which nobody needs here."""
    text = "".join(render(*values, show_only=(name,)) for name in templates)
    return re.sub(r"^# Source: .*\n", "", text, flags=re.MULTILINE)


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
