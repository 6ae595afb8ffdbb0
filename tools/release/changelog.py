"""Sections of CHANGELOG.md: the notes of a release, and the section that a new version gets. Pure."""

import re

from tools.release.errors import ReleaseError

UNRELEASED = "Unreleased"
_SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*)?"
)


def notes_of(changelog: str, version: str) -> str:
    """Return the text of the version's section, without its heading. Raises ReleaseError."""
    found = list(_SECTION.finditer(changelog))
    for heading, following in zip(found, [*found[1:], None], strict=True):
        if heading["title"].split(" ")[0] == version:
            text = changelog[heading.end() : following.start() if following else len(changelog)].strip()
            if text:
                return f"{text}\n"
    raise ReleaseError(
        f"CHANGELOG.md has no section for {version}: `make release-version VERSION={version}` heads it; "
        "commit that first"
    )


def with_section(changelog: str, version: str, day: str) -> str:
    """Return the changelog with `Unreleased` as the section of the version, and an empty `Unreleased` above it.

    Raises ReleaseError if there is nothing unreleased, or a section of that version.
    """
    if any(heading["title"].split(" ")[0] == version for heading in _SECTION.finditer(changelog)):
        raise ReleaseError(f"CHANGELOG.md already has a section for {version}")
    notes_of(changelog, UNRELEASED)
    return changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} ({day})\n", 1)


def check_version(version: str) -> None:
    """Check that the version is one of SemVer 2.0 without build metadata, which tags of images cannot have.

    Raises ReleaseError.
    """
    if _SEMVER.fullmatch(version) is None:
        raise ReleaseError(f"{version} is not a version of SemVer 2.0, such as 1.2.3 or 1.3.0-rc.1")
