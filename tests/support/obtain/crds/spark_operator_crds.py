"""The CRDs of the two Spark operators.

`python -m tests.support.obtain.crds.spark_operator_crds` obtains kubeflow's once.

kubeflow's are in its Go module, pinned by version and sum, which Go downloads as any other. Apache's are in no
registry. Tests have the part that is used here (apache_spark_crd.yaml), as of release 1.0.0. If
SLUICEGATE_APACHE_SPARK_CRD names the published file, they use it instead
(build-tools/helm/spark-kubernetes-operator/crds/ in that repository).
"""

import os
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.go_module import GoModule

MODULE = GoModule("github.com/kubeflow/spark-operator/v2", "v2.5.2", "h1:6nX2UhwSfnYi1mtwczgFfJTMeLSL/1ajTvkFe8R7Vdc=")
NAMES = ("sparkoperator.k8s.io_scheduledsparkapplications.yaml", "sparkoperator.k8s.io_sparkapplications.yaml")
APACHE_VARIABLE = "SLUICEGATE_APACHE_SPARK_CRD"
_FOLDER = Path("config") / "crd" / "bases"


def kubeflow_crds() -> list[Path]:
    """Paths of kubeflow's CRDs. Raises ObtainError if they are missing."""
    place = _place()
    if not _is_complete(place):
        raise ObtainError(f"{place} is not there: `make spark-crds` downloads it")
    return [place / name for name in NAMES]


def apache_crd() -> Path:
    return Path(os.environ.get(APACHE_VARIABLE) or Path(__file__).with_name("apache_spark_crd.yaml"))


def obtain() -> Path:
    """The folder of kubeflow's CRDs; fill it if it is incomplete. Raises ObtainError."""
    return obtained(
        _place(),
        _is_complete,
        lambda fresh: MODULE.take([_FOLDER / name for name in NAMES], fresh, target="spark-crds"),
    )


def _place() -> Path:
    return cache_root() / f"kubeflow-spark-operator-{MODULE.version}"


def _is_complete(place: Path) -> bool:
    return all((place / name).is_file() for name in NAMES)


if __name__ == "__main__":
    sys.exit(main(obtain))
