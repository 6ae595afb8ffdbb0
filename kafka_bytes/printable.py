"""Text of clients on one line of a log: a client must not be able to write lines of its own. Pure."""


def printable(text: str) -> str:
    """Return the text with each character that does not print, such as a newline, as its escape of Python."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
