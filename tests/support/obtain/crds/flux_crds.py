"""The CRDs of Flux: `python -m tests.support.obtain.crds.flux_crds` obtains them once.

They are in the Go modules of Flux's controllers, pinned by version and sum, which Go downloads as any other.
"""

import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.go_module import GoModule

_KUSTOMIZE = "kustomize.toolkit.fluxcd.io_kustomizations.yaml"
_HELM = "helm.toolkit.fluxcd.io_helmreleases.yaml"
_SOURCE = "source.toolkit.fluxcd.io_gitrepositories.yaml"
CONTROLLERS = {
    _KUSTOMIZE: GoModule(
        "github.com/fluxcd/kustomize-controller", "v1.7.2", "h1:xmOWILtm9329M7MQCS/iCHXc2R+Xm9HjFSft9fh/PCA="
    ),
    _HELM: GoModule("github.com/fluxcd/helm-controller", "v1.4.0", "h1:rkm8rmB6Na7eNc4pJOnvtXEaJ19iKluRtayHKjBxcUM="),
    _SOURCE: GoModule(
        "github.com/fluxcd/source-controller", "v1.7.2", "h1:PQLzvgHNEYsstl8uATBZg/70b/i0tj63e0IqnYDeJyg="
    ),
}
_FOLDER = Path("config") / "crd" / "bases"


def flux_crds() -> list[Path]:
    """Paths of the CRDs. Raises ObtainError if they are missing."""
    found = [_place(name) / name for name in CONTROLLERS]
    if not all(file.is_file() for file in found):
        raise ObtainError(f"{found[0].parent} is not there: `make flux-crds` downloads it")
    return found


def obtain() -> Path:
    """Fill all folders that are missing, and return the last one. Raises ObtainError."""
    for name in CONTROLLERS:
        place = _obtain(name)
    return place


def _obtain(name: str) -> Path:
    module = CONTROLLERS[name]
    return obtained(
        _place(name),
        lambda place: (place / name).is_file(),
        lambda fresh: module.take([_FOLDER / name], fresh, target="flux-crds"),
    )


def _place(name: str) -> Path:
    module = CONTROLLERS[name]
    return cache_root() / f"flux-{Path(module.path).name}-{module.version}"


if __name__ == "__main__":
    sys.exit(main(obtain))
