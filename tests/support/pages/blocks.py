"""Sections and blocks of commands of a page in Markdown."""

import re

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """Return the text below `## heading`. Raises ValueError if that is missing."""
    _, found, text = f"\n{page}".partition(f"\n## {heading}\n")
    if not found:
        raise ValueError(f"the page has no section {heading!r}")
    return text.partition("\n## ")[0]


def blocks(text: str, language: str = "") -> list[list[str]]:
    """Return the lines of each block of commands in that language."""
    return [[line for line in block.splitlines() if line] for tag, block in _BLOCK.findall(text) if tag == language]
