"""What others have named, for a terminal: clients choose names of groups, their own and their members' as they like."""


def printable(text: str) -> str:
    """One line that moves no cursor: what cannot be printed is shown as Python writes it."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
