"""The release of this package as a constant: reading it from the package would cost a broker 2 MB of memory."""

VERSION = "0.1.0"
"""The version of this release. A test checks that pyproject.toml has the same version."""


def version_int(version: str) -> int:
    """Encode up to four numbers before a dash in a byte each, the first one highest; missing numbers are 0."""
    numbers = [int(part) for part in version.partition("-")[0].split(".")]
    found = 0
    for number in (*numbers, 0, 0, 0, 0)[:4]:
        found = found << 8 | number
    return found
