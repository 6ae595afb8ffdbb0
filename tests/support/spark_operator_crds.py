"""The CRDs of the two Spark operators: `python -m tests.support.spark_operator_crds` has kubeflow's ready, once.

kubeflow's are in its Go module, pinned by version and sum, which Go downloads as any other. Apache's are in no
registry: tests have the part that is used here (apache_spark_crd.yaml), as of release 1.0.0, and take the published
file instead where SLUICEGATE_APACHE_SPARK_CRD names it (build-tools/helm/spark-kubernetes-operator/crds/ there).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.cache import ObtainError, cache_root, main, obtained, show

MODULE, VERSION = "github.com/kubeflow/spark-operator/v2", "v2.5.2"
SUM = "h1:6nX2UhwSfnYi1mtwczgFfJTMeLSL/1ajTvkFe8R7Vdc="
NAMES = ("sparkoperator.k8s.io_scheduledsparkapplications.yaml", "sparkoperator.k8s.io_sparkapplications.yaml")
APACHE_VARIABLE = "SLUICEGATE_APACHE_SPARK_CRD"
_FOLDER = Path("config") / "crd" / "bases"
_DOWNLOAD_TIMEOUT_S = 600


def kubeflow_crds() -> list[Path]:
    """Raises ObtainError when they are not there."""
    place = _place()
    if not _is_complete(place):
        raise ObtainError(f"{place} is not there: `make spark-crds` downloads it")
    return [place / name for name in NAMES]


def apache_crd() -> Path:
    return Path(os.environ.get(APACHE_VARIABLE) or Path(__file__).with_name("apache_spark_crd.yaml"))


def obtain() -> Path:
    """The folder of kubeflow's, filled when it is not. Raises ObtainError."""
    return obtained(_place(), _is_complete, _download)


def _place() -> Path:
    return cache_root() / f"kubeflow-spark-operator-{VERSION}"


def _is_complete(place: Path) -> bool:
    return all((place / name).is_file() for name in NAMES)


def _download(fresh: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ObtainError("the CRDs of kubeflow's Spark operator come by Go's module proxy, and Go is not installed")
    show("spark-crds", f"downloading {MODULE} {VERSION} ...")
    scratch = fresh.with_name("module")
    scratch.mkdir()
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        cwd=scratch,
        # Its sum is compared below.
        env={**os.environ, "GONOSUMDB": MODULE, "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        timeout=_DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ObtainError(f"Go could not download {MODULE} {VERSION}: {(done.stderr or done.stdout)[-800:]}")
    found = json.loads(done.stdout)
    if found["Sum"] != SUM:
        raise ObtainError(f"{MODULE} {VERSION} has the sum {found['Sum']}, and {SUM} was expected")
    fresh.mkdir()
    for name in NAMES:
        # The module's own files are read-only.
        (fresh / name).write_bytes((Path(found["Dir"]) / _FOLDER / name).read_bytes())


if __name__ == "__main__":
    sys.exit(main(obtain))
