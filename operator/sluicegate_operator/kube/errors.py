"""What can go wrong with the API server, in our words."""

from collections.abc import Awaitable

NOT_SERVED = 404
"""Status of a list of a kind that the API server does not serve."""


class KubeError(Exception):
    """The API server refused; `status` is its HTTP code. What is not `retriable` needs a person; of 401 and 403 that is
    only said once they have lasted, see kube.denials."""

    def __init__(self, message: str, status: int | None = None, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retriable = retriable
        self.retry_after_s: float | None = None
        """As the API server asked for."""
        self.again_within_s: float | None = None
        """The longest delay before the work is repeated, for objects that were not refused; None for any delay."""


class KubeConflictError(KubeError):
    """409: somebody else changed or owns it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 409, retriable=True)


class KubeUnavailableError(KubeError):
    """No answer: the API server is away, or too slow."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class KubeFencedError(KubeError):
    """Nothing was sent: this process may not write (any more), because it does not hold the Lease."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class NamespaceGoingError(KubeError):
    """Nothing is made in a namespace that is being deleted: it is nobody's fault, and ends with the cluster in it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 403, retriable=True)


class ClaimsTakenError(KubeError):
    """Volume claims that nodes would get hold data of another cluster; nothing was made."""


class LandingTakenError(KubeError):
    """Another object keeps the place where the cluster is to land its audit log; nothing was applied."""


class NameTakenError(KubeError):
    """An object that is not ours has the name of one of our children; it was not touched."""


async def refusal(asking: Awaitable[str | None]) -> str:
    """What `asking` returns, or the API server's words if it refuses for good. Raises KubeError for what may pass."""
    try:
        return await asking or ""
    except KubeError as error:
        if error.retriable:
            raise
        return str(error)
