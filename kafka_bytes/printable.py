"""Text that clients chose, such as names of groups, on one line of a log, a terminal or a page. Pure."""


def printable(text: str) -> str:
    """Return the text with each character that does not print as its escape of Python.

    It then begins no line, moves no cursor, and changes no direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
