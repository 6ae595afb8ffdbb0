"""Helm: `python -m tests.support.obtain.helm` obtains its program once.

`Chart` renders, lints and installs our chart.

The program is the one that SLUICEGATE_HELM names, else in the cache, where Go builds it. Tests only look for it: every
build happens before them.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.go_build import build

MODULE, VERSION = "helm.sh/helm/v3", "v3.21.4"
KUBERNETES_MINOR = "36"
"""Kubernetes minor version of the client library in that version."""
PROGRAM_VARIABLE = "SLUICEGATE_HELM"
CHART = Path(__file__).parents[3] / "charts" / "sluicegate"
RELEASE, NAMESPACE = "sluicegate", "sluicegate-system"
_RUN_TIMEOUT_S = 300


class HelmError(Exception):
    """The message of Helm when it refuses or fails."""


def program() -> Path:
    """Path of the program. Raises ObtainError if it is missing."""
    found = place()
    if not found.is_file():
        raise ObtainError(f"{found} is not there: `make helm` builds Helm")
    return found


def obtain() -> Path:
    """Path of the program; build it if it is missing. Raises ObtainError."""
    if os.environ.get(PROGRAM_VARIABLE):
        return program()
    return obtained(place(), Path.is_file, _build)


def place() -> Path:
    """The path at which the program is, or will be."""
    return Path(os.environ.get(PROGRAM_VARIABLE) or cache_root() / f"helm-{VERSION}" / "helm")


def _build(fresh: Path) -> None:
    build(
        "helm",
        f"Helm {VERSION}",
        ["install", "-trimpath", f"-ldflags={_ldflags()}", f"{MODULE}/cmd/helm@{VERSION}"],
        without_go=f"install it, or let {PROGRAM_VARIABLE} name the program",
        env={"GOBIN": str(fresh.parent)},
    )


def _ldflags() -> str:
    """Linker flags as in Helm's own Makefile.

    Without them Helm assumes v1.20 for every API server that it does not ask.
    """
    values = {"internal/version.version": VERSION}
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        values |= {f"{package}.k8sVersionMajor": "1", f"{package}.k8sVersionMinor": KUBERNETES_MINOR}
    return "-s -w " + " ".join(f"-X {MODULE}/{name}={value}" for name, value in values.items())


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run Helm and return its output. Raises HelmError, and ObtainError if Helm is missing."""
    where = {} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        [str(program()), *arguments],
        env={**os.environ, **where},
        capture_output=True,
        text=True,
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise HelmError((done.stderr or done.stdout).strip())
    return done.stdout


def render(
    *values: str,
    files: tuple[Path, ...] = (),
    show_only: tuple[str, ...] = (),
    api_versions: tuple[str, ...] = (),
    namespace: str = NAMESPACE,
) -> str:
    """The chart's manifests with the values of `files`, overridden by `values` as KEY=JSON. Raises HelmError."""
    options = [word for file in files for word in ("--values", str(file))]
    options += [word for value in values for word in ("--set-json", value)]
    options += [word for name in show_only for word in ("--show-only", f"templates/{name}")]
    options += [word for name in api_versions for word in ("--api-versions", name)]
    return helm("template", RELEASE, str(CHART), "--namespace", namespace, *options)


if __name__ == "__main__":
    sys.exit(main(obtain))
