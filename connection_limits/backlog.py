"""The length of the kernel's queue of clients that a listener has not accepted yet (decision 14). Pure."""

LONGEST = 65_535
"""The longest length of the queue. The kernel caps it at net.core.somaxconn, which is 4,096 nearly everywhere."""


def backlog(configured: int, rate: int, *, full: bool) -> int:
    """Return the length of a listener's queue in the kernel, in connections.

    `rate` is the number of connections per second that the listener may accept; `full` means that it has no free slot.

    A client that finds no place must retry, after the kernel's SYN timeout of one second, and more each time. So the
    queue holds all clients that the listener accepts within a second. A longer queue would hold clients that give up
    before they are accepted. Without a rate limit the queue is as long as the kernel allows.
    """
    return configured if full else max(configured, min(rate, LONGEST))
