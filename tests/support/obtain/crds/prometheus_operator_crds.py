"""The CRDs of the Prometheus operator.

`python -m tests.support.obtain.crds.prometheus_operator_crds` obtains them once.

They are in its Go module, pinned by version and sum, which Go downloads as any other.
"""

import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.go_module import GoModule

MODULE = GoModule(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.82.2",
    "h1:qalPLM8wkvCtu9aHcoSKGDpCZR3aWRMKeHev5WomTBQ=",
)
NAMES = tuple(f"monitoring.coreos.com_{kind}.yaml" for kind in ("podmonitors", "prometheusrules", "servicemonitors"))
_FOLDER = Path("example") / "prometheus-operator-crd"


def prometheus_operator_crds() -> list[Path]:
    """Paths of the CRDs. Raises ObtainError if they are missing."""
    place = _place()
    if not _is_complete(place):
        raise ObtainError(f"{place} is not there: `make prometheus` downloads it")
    return [place / name for name in NAMES]


def obtain() -> Path:
    """The folder of the CRDs; fill it if it is incomplete. Raises ObtainError."""
    return obtained(
        _place(),
        _is_complete,
        lambda fresh: MODULE.take([_FOLDER / name for name in NAMES], fresh, target="prometheus"),
    )


def _place() -> Path:
    return cache_root() / f"prometheus-operator-{MODULE.version}"


def _is_complete(place: Path) -> bool:
    return all((place / name).is_file() for name in NAMES)


if __name__ == "__main__":
    sys.exit(main(obtain))
