"""Errors of requests to the API server."""

from collections.abc import Awaitable

BUSY = 429
"""Status of an API server that takes no request now."""
NOT_SERVED = 404
"""Status of the answer to a list of a kind that the API server does not serve."""


class KubeError(Exception):
    """Error for a request that the API server refused. `status` is the HTTP status.

    If it is not `retriable`, a user must act. 401 and 403 become not retriable only after they have lasted, see
    kube.http.denials.
    """

    def __init__(self, message: str, status: int | None = None, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retriable = retriable
        self.retry_after_s: float | None = None
        """The delay in seconds that the API server asked for; None if it asked for none."""
        self.again_within_s: float | None = None
        """The longest delay before the work is repeated, for objects that were not refused; None for any delay."""


class KubeConflictError(KubeError):
    """Error 409: another client changed the object or owns the field."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 409, retriable=True)


class KubeUnavailableError(KubeError):
    """Error without an answer: the API server is down or too slow."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class KubeFencedError(KubeError):
    """Error for a write that was not sent: this process does not hold the Lease (any more), so it may not write."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class NamespaceGoingError(KubeError):
    """Error for an object that cannot be created because its namespace is being deleted.

    No user has to act: the cluster in it is deleted too.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, 403, retriable=True)


class ClaimsTakenError(KubeError):
    """Error for volume claims of nodes that contain data of another cluster. Nothing was created."""


class LandingTakenError(KubeError):
    """Error if another object reserves the location where the cluster would land its audit log. Nothing was applied."""


class NameTakenError(KubeError):
    """Error if an object that does not belong to the operator has the name of a child. The object was not changed."""


async def refusal(asking: Awaitable[str | None]) -> str:
    """Return the result of `asking`, or the API server's message for a final refusal.

    Raises KubeError for an error that is retriable.
    """
    try:
        return await asking or ""
    except KubeError as error:
        if error.retriable:
            raise
        return str(error)
