"""Text that clients chose, such as names of groups, on one line of a log, a terminal or a page. Pure."""


def printable(text: str) -> str:
    """Return the text with each unprintable character replaced by its Python escape.

    The result cannot begin a line, move the cursor, or change the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
