import json

from tools.image import sbom


def test_a_document_names_each_part_once_by_the_name_of_its_registry() -> None:
    parts = [sbom.Component("deb", "libc6", "2.36-9+deb12u1", architecture="amd64"), sbom.Component("pypi", "A_b", "1")]
    document = json.loads(sbom.document("shop", "1.0", [*parts, *parts]))
    assert [part["purl"] for part in document["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
        "pkg:pypi/a-b@1",
    ]
    assert document["metadata"]["component"]["name"] == "shop"


def test_a_python_packages_licence_is_read_from_either_field() -> None:
    new = sbom.of_python("Metadata-Version: 2.4\nName: a\nVersion: 1\nLicense-Expression: MIT\n\nText.")
    old = sbom.of_python("Metadata-Version: 2.1\nName: a\nVersion: 1\nLicense: MIT\n\nText.")
    none = sbom.of_python("Metadata-Version: 2.1\nName: a\nVersion: 1\n\nText.")
    assert [part.licence for part in (new, old, none)] == ["MIT", "MIT", ""]


def test_from_json_reads_what_to_json_wrote() -> None:
    parts = [sbom.Component("deb", "a", "1", architecture="all"), sbom.Component("pypi", "b", "2", "MIT")]
    assert sbom.from_json(sbom.to_json(reversed(parts))) == parts
