"""Which release this is: to ask the installed package for it would cost a broker 2 MB of memory."""

VERSION = "0.1.0"
"""As in pyproject.toml."""


def version_int(version: str) -> int:
    """Four numbers, a byte each, the first one the highest; what is missing is 0. A dash ends them."""
    numbers = [int(part) for part in version.partition("-")[0].split(".")]
    found = 0
    for number in (*numbers, 0, 0, 0, 0)[:4]:
        found = found << 8 | number
    return found
