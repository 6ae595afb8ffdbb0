"""Makes all artefacts of a release in one folder, each with the list of its parts."""

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.support.obtain.cache import show
from tools.image.build import build as build_image
from tools.image.definition import IMAGES
from tools.release.chart import pack_chart
from tools.release.distributions import CONSUMER, build_distributions
from tools.release.errors import ReleaseError
from tools.release.parts import parts_of_chart, parts_of_distribution, write_parts
from tools.release.source import Source
from tools.release.sums import write_sums


def make_artefacts(source: Source, folder: Path, architectures: Sequence[str], images: Sequence[str]) -> None:
    """Fill `folder`, which must be empty or missing. Raises ReleaseError and ImageError."""
    if folder.exists() and any(folder.iterdir()):
        raise ReleaseError(
            f"{folder} has files: remove it, because everything in it would count as part of the release"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _distributions(source, folder)
    for path in pack_chart(source, folder):
        write_parts(path, "sluicegate-chart", source.version, parts_of_chart(source))
    _copy_manifests(source, folder)
    for architecture in architectures:
        for name in images:
            show("release", f"image {name} for {architecture} ...")
            build_image(IMAGES[name], folder, architecture)
    (folder / "RELEASE_NOTES.md").write_text(source.notes, encoding="utf-8")
    write_sums(folder)


def _distributions(source: Source, folder: Path) -> None:
    consumer = tomllib.loads((source.root / "packaging/consumer/pyproject.toml").read_text(encoding="utf-8"))["project"]
    if consumer["version"] != source.version:
        raise ReleaseError(
            f"packaging/consumer/pyproject.toml has version {consumer['version']}, and the release is "
            f"{source.version}: make them the same"
        )
    show("release", "wheels and source distributions ...")
    for path in build_distributions(source, folder):
        is_consumer = path.name.startswith(CONSUMER.replace("-", "_"))
        project = consumer if is_consumer else source.pyproject["project"]
        write_parts(path, project["name"], source.version, parts_of_distribution(source, project))


def _copy_manifests(source: Source, folder: Path) -> None:
    """Write the CRDs as one file, and copy alerts and dashboards."""
    crds = [path.read_text(encoding="utf-8") for path in sorted((source.root / "crds").glob("*.yaml"))]
    (folder / f"sluicegate-crds-{source.version}.yaml").write_text("---\n".join(crds), encoding="utf-8")
    chart = source.root / "charts" / "sluicegate"
    shutil.copyfile(chart / "alerts.yaml", folder / f"sluicegate-alerts-{source.version}.yaml")
    for dashboard in sorted((chart / "dashboards").glob("*.json")):
        shutil.copyfile(dashboard, folder / f"sluicegate-dashboard-{dashboard.stem}-{source.version}.json")
