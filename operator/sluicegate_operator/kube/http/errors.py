"""Errors of requests to the API server."""

from collections.abc import Awaitable

BUSY = 429
"""Status of an API server that takes no request now."""
NOT_SERVED = 404
"""Status of the answer to a list of a kind that the API server does not serve."""


class KubeError(Exception):
    """The API server refused a request; `status` is its HTTP code.

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
    """409: another client changed the object or owns the field."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 409, retriable=True)


class KubeUnavailableError(KubeError):
    """No answer: the API server is down or too slow."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class KubeFencedError(KubeError):
    """Nothing was sent: this process may not write, because it does not hold the Lease (any more)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=True)


class NamespaceGoingError(KubeError):
    """Nothing can be created in a namespace that is being deleted.

    No user has to act: the cluster in it is deleted too.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, 403, retriable=True)


class ClaimsTakenError(KubeError):
    """Volume claims that node pods would use contain data of another cluster; nothing was created."""


class LandingTakenError(KubeError):
    """Another object reserves the location where the cluster would land its audit log; nothing was applied."""


class NameTakenError(KubeError):
    """An object that does not belong to the operator has the name of a child; it was not changed."""


async def refusal(asking: Awaitable[str | None]) -> str:
    """Return the result of `asking`, or the API server's message if the refusal is final.

    Raises KubeError for an error that is retriable.
    """
    try:
        return await asking or ""
    except KubeError as error:
        if error.retriable:
            raise
        return str(error)
