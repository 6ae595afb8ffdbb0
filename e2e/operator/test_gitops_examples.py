"""Flux's own CRDs accept its examples, with unknown fields refused."""

import pytest

from e2e.cluster.control_plane import ControlPlane, KubectlError
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import REPOSITORY
from tests.support.obtain.crds.flux_crds import flux_crds

EXAMPLES = REPOSITORY / "examples" / "gitops" / "flux"
NAMESPACES = ("flux-system", "sluicegate-system")
KINDS = "gitrepositories.source.toolkit.fluxcd.io,kustomizations.kustomize.toolkit.fluxcd.io,helmreleases"


@pytest.fixture
def flux(plane: ControlPlane) -> ControlPlane:
    crds = [argument for file in flux_crds() for argument in ("-f", str(file))]
    plane.kubectl("apply", "--server-side", *crds)
    # A new CRD has no conditions at first, which `kubectl wait` treats as an error.
    wait_for(
        "they are established", lambda: plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    )
    wait_for("the storage of the CRDs", lambda: plane.kubectl("get", KINDS, "-A", "-o", "json"))
    for namespace in NAMESPACES:
        document = plane.kubectl("create", "namespace", namespace, "--dry-run=client", "-o", "json")
        plane.kubectl("apply", "--server-side", "-f", "-", input=document)
    return plane


def test_flux_takes_the_examples(flux: ControlPlane) -> None:
    said = flux.kubectl("apply", "--dry-run=server", "--validate=strict", "-R", "-f", str(EXAMPLES))
    lines = [line for line in said.splitlines() if "(server dry run)" in line]
    assert len(lines) == 6, said
    unknown = (EXAMPLES / "sluicegate.yaml").read_text().replace("dependsOn:", "dependOn:")
    with pytest.raises(KubectlError, match="dependOn"):
        flux.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=unknown)
