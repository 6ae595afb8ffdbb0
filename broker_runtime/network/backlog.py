"""How many clients may wait in the kernel until they are accepted (docs/decisions/0014). Pure."""

LONGEST = 65_535
"""The kernel takes less of it: net.core.somaxconn, which is 4,096 nearly everywhere."""


def backlog(configured: int, rate: int, *, full: bool) -> int:
    """`rate`: connections a second that the listener may accept; `full`: there is no free slot for one.

    Who finds no place has to knock again, which costs the kernel's SYN time-out of a second, and more each time. So
    there is a place for all whom the listener accepts within a second: a longer queue would be one of clients that
    have given up when their turn comes. Without a limit that is as many as the kernel allows.
    """
    return configured if full else max(configured, min(rate, LONGEST))
