"""Makes names that clients chose safe for a terminal: names of groups, clients and members may have any characters."""


def printable(text: str) -> str:
    """Return one line that moves no cursor: characters that are not printable are escaped as in Python."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
