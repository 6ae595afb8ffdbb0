"""Which command a shell is completing, from the variables that typer's scripts set. Pure.

A completion loads only the module of that command, so that it takes a fraction of a second.
"""

import shlex
from collections.abc import Mapping

COMPLETE = "_SLUICEGATE_COMPLETE"
"""The variable that is set when a shell completes, to complete_bash for example."""


def completed_command(environment: Mapping[str, str]) -> str | None:
    """Return the first word after the program's name; None if no shell completes, or completes that word."""
    asked = environment.get(COMPLETE, "")
    text = environment.get("COMP_WORDS" if asked == "complete_bash" else "_TYPER_COMPLETE_ARGS", "")
    if not asked.startswith("complete_"):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        # A quotation is still open; it is not the name of a command.
        words = text.split()
    if asked == "complete_bash":
        ended = words[: int(environment.get("COMP_CWORD") or 0)]
    else:
        ended = words if text.endswith((" ", "\n")) else words[:-1]
    return ended[1] if len(ended) > 1 else None
