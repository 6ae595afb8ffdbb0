"""The list of an artefact's parts in CycloneDX format. Pure."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from email.parser import HeaderParser
from typing import Any


@dataclass(frozen=True, order=True)
class Component:
    """A part of an artefact, by its name in a registry: of Debian ("deb"), Python ("pypi"), Helm, or images ("oci")."""

    kind: str
    name: str
    version: str
    licence: str = ""
    architecture: str = ""

    @property
    def purl(self) -> str:
        """Return the package URL, by which scanners look up known vulnerabilities."""
        if self.kind == "deb":
            version = self.version.replace(":", "%3A").replace("+", "%2B")
            return f"pkg:deb/debian/{self.name}@{version}?arch={self.architecture}"
        return f"pkg:{self.kind}/{self.name.lower().replace('_', '-')}@{self.version}"


def of_python(metadata: str) -> Component:
    """Return the component described by the METADATA of an installed package."""
    fields = HeaderParser().parsestr(metadata)
    licence = fields["License-Expression"] or (fields["License"] or "").splitlines()[:1]
    return Component(
        "pypi", fields["Name"], fields["Version"], licence if isinstance(licence, str) else "".join(licence)
    )


def to_json(components: Iterable[Component]) -> str:
    """Serialize the components of a layer for the cache."""
    return json.dumps([asdict(component) for component in sorted(components)], indent=1)


def from_json(text: str) -> list[Component]:
    """Parse the list of components in a document that `to_json` wrote."""
    return [Component(**fields) for fields in json.loads(text)]


def document(name: str, version: str, components: Iterable[Component], kind: str = "container") -> str:
    """Return the list of an artefact's parts, without a time or serial number.

    The same artefact gives the same document. `kind` is CycloneDX's type of the artefact.
    """
    listed = []
    for component in sorted(set(components)):
        entry: dict[str, Any] = {"type": "library", "name": component.name, "version": component.version}
        entry |= {"purl": component.purl, "bom-ref": component.purl}
        if component.licence:
            entry["licenses"] = [{"license": {"name": component.licence}}]
        listed.append(entry)
    about = {"component": {"type": kind, "name": name, "version": version, "bom-ref": f"{name}:{version}"}}
    return json.dumps(
        {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": listed},
        indent=1,
    )
