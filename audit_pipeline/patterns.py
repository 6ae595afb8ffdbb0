"""Patterns of names, as commands and the page take them: a whole name, or a beginning and a star. Pure."""


def fits(pattern: str | None, name: str | None) -> bool:
    """Return whether the pattern matches the name. No pattern matches everything; a pattern never matches no name."""
    if pattern is None or name is None:
        return pattern is None
    return name.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else name == pattern
