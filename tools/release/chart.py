"""The chart as Helm's package, and as an archive in the layout of OCI images, which registries take."""

import json
from pathlib import Path
from typing import Any

import yaml

from tools.image import archive
from tools.image.layer import Layer, digest_of
from tools.release.errors import ReleaseError
from tools.release.packed import tar_gz
from tools.release.source import Source, tracked

CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json"
CONTENT_TYPE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def pack_chart(source: Source, folder: Path) -> list[Path]:
    """Write the chart's package and its archive into `folder`, and return their paths. Raises ReleaseError."""
    chart = source.root / "charts" / "sluicegate"
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    if {about["version"], about["appVersion"]} != {source.version}:
        raise ReleaseError(
            f"charts/sluicegate/Chart.yaml has version {about['version']} and appVersion {about['appVersion']}, and "
            f"the release is {source.version}: make them the same"
        )
    package = folder / f"{about['name']}-{source.version}.tgz"
    package.write_bytes(tar_gz(chart_files(source.root, chart, about["name"]), source.epoch_s))
    layout = folder / f"{about['name']}-chart-{source.version}.oci.tar"
    write_layout(about, package, layout)
    return [package, layout]


def chart_files(root: Path, chart: Path, name: str) -> dict[str, bytes]:
    """Return the files of the chart by their names in its package. Chart.yaml is the first, as Helm writes it."""
    files = tracked(root, chart.relative_to(root).as_posix())
    files.sort(key=lambda path: path.name != "Chart.yaml")
    return {f"{name}/{path.relative_to(chart).as_posix()}": path.read_bytes() for path in files}


def write_layout(about: dict[str, Any], package: Path, place: Path) -> None:
    """Write the archive of a packed chart. `about` is the content of its Chart.yaml."""
    config = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    layer = Layer(package, digest_of(package), package.stat().st_size, "")
    annotations = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.description": about["description"],
    }
    described = archive.artifact(about["version"], CONFIG_TYPE, config, CONTENT_TYPE, layer, annotations)
    archive.write(place, described, [layer])
