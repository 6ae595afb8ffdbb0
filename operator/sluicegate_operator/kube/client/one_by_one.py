"""Refusals of the API server while several objects are handled one after the other: one object stops no other."""

from collections.abc import Iterator
from contextlib import contextmanager

from sluicegate_operator.kube.http.errors import BUSY, KubeError, NamespaceGoingError


def concerns_all(error: KubeError) -> bool:
    """Return whether requests for other objects would fail in the same way.

    They would if the API server does not answer or is busy, if this process does not hold the Lease, or if the
    namespace is being deleted.
    """
    no_answer = error.retriable and error.status is None
    return no_answer or error.status == BUSY or isinstance(error, NamespaceGoingError)


class Refusals:
    """The refusals of one reconcile.

    A loop keeps the refusal of an object and continues with the next object. At the end the reconcile raises the first
    refusal that may pass, or else the first one, so that the work is tried again.
    """

    def __init__(self) -> None:
        self.first: KubeError | None = None
        """The first refusal that may pass, or else the first refusal; None while nothing was refused."""

    def keep(self, error: KubeError) -> None:
        """Keep the API server's refusal of one object. Raises `error` if it concerns all objects."""
        if concerns_all(error):
            raise error
        if self.first is None or (error.retriable and not self.first.retriable):
            self.first = error

    @contextmanager
    def kept(self) -> Iterator[None]:
        """End the body of a `with` at a refusal, and keep the refusal. Raises KubeError if it concerns all objects."""
        try:
            yield
        except KubeError as error:
            self.keep(error)

    def raise_first(self) -> None:
        """Raise the KubeError of the first refusal that may pass, else of the first refusal, if any was kept."""
        if self.first is not None:
            raise self.first
