"""Patterns of names, as commands and the page take them: a whole name, or a beginning and a star. Pure."""


def beginning_of(pattern: str) -> str | None:
    """Return the beginning in a pattern with a star; None for a pattern that is a whole name."""
    return pattern.removesuffix("*") if pattern.endswith("*") else None


def fits(pattern: str | None, name: str | None) -> bool:
    """Return whether the pattern matches the name.

    None as pattern matches everything; a pattern never matches None as name.
    """
    if pattern is None or name is None:
        return pattern is None
    beginning = beginning_of(pattern)
    return name == pattern if beginning is None else name.startswith(beginning)
