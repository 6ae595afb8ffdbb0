"""Text that a terminal or a page shows as it is. Pure."""


def printable(text: str) -> str:
    """Replace invisible and direction-changing characters by their codes: clients choose the names that are shown."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
