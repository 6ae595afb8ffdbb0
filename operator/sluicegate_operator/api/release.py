"""The release of this operator, and the releases whose work it continues."""

import re
from functools import cache
from importlib.metadata import version

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\D|$)")


@cache
def own_release() -> str:
    """Return the release of this program, for example 0.1.0."""
    return version("sluicegate")


def why_too_new(recorded: str, own: str) -> str:
    """Return why an operator of release `own` must not continue the work of release `recorded`; empty if it may.

    It may continue the work of earlier releases and of the next minor one, which `helm rollback` replaces. A text that
    begins with no release prevents nothing.
    """
    theirs, ours = _NUMBERS.match(recorded), _NUMBERS.match(own)
    if theirs is None or ours is None:
        return ""
    (major, minor), (own_major, own_minor) = map(int, theirs.groups()), map(int, ours.groups())
    if major < own_major or (major == own_major and minor <= own_minor + 1):
        return ""
    return (
        f"an operator of release {recorded} has written its status, and this operator of release {own} takes over from"
        f" the next minor release at most: run release {recorded} again, or go back one minor release at a time"
    )
