"""The lists of parts (CycloneDX) of wheels, source distributions and charts. Images have theirs from tools.image."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.image import sbom
from tools.image.definition import IMAGES
from tools.pins import needed, parse
from tools.release.source import Source


def parts_of_distribution(source: Source, project: dict[str, Any]) -> list[sbom.Component]:
    """Return a distribution and the packages that it needs without extras, in the versions of constraints.txt."""
    pins = parse((source.root / "constraints.txt").read_text(encoding="utf-8"))
    found = [sbom.Component("pypi", pin.name, pin.version) for pin in needed(pins, project["dependencies"])]
    return [sbom.Component("pypi", project["name"], project["version"], project["license"]), *found]


def parts_of_chart(source: Source) -> list[sbom.Component]:
    """Return the chart, and the images that it runs. The image of clients is one of examples."""
    images = [image for name, image in IMAGES.items() if name != "client"]
    references = [image.reference(source.version).partition(":") for image in images]
    found = [sbom.Component("oci", name, tag, "Apache-2.0") for name, _, tag in references]
    return [sbom.Component("helm", "sluicegate", source.version, "Apache-2.0"), *found]


def write_parts(artefact: Path, name: str, version: str, parts: Iterable[sbom.Component]) -> Path:
    """Write the list of an artefact's parts beside it, and return its path."""
    place = artefact.with_name(f"{artefact.name}.cdx.json")
    place.write_text(sbom.document(name, version, parts, "library"), encoding="utf-8")
    return place
