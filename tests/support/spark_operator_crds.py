"""The CRDs of the two Spark operators: `python -m tests.support.spark_operator_crds` has kubeflow's ready, once.

kubeflow's are in its Go module, pinned by version and sum, which Go downloads as any other. Apache's are in no
registry: tests have the part that is used here (apache_spark_crd.yaml), as of release 1.0.0, and take the published
file instead where SLUICEGATE_APACHE_SPARK_CRD names it (build-tools/helm/spark-kubernetes-operator/crds/ there).
"""

import os
import sys
from pathlib import Path

from tests.support.cache import ObtainError, cache_root, main, obtained
from tests.support.go_module import GoModule

MODULE = GoModule("github.com/kubeflow/spark-operator/v2", "v2.5.2", "h1:6nX2UhwSfnYi1mtwczgFfJTMeLSL/1ajTvkFe8R7Vdc=")
NAMES = ("sparkoperator.k8s.io_scheduledsparkapplications.yaml", "sparkoperator.k8s.io_sparkapplications.yaml")
APACHE_VARIABLE = "SLUICEGATE_APACHE_SPARK_CRD"
_FOLDER = Path("config") / "crd" / "bases"


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
