"""Refusals of the API server that may pass but last, for example because a webhook is down."""

import asyncio
from dataclasses import dataclass, field

from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.kube.http.errors import KubeError, NamespaceGoingError

TOLD_AFTER_S = 60.0


@dataclass(slots=True)
class LastingRefusals:
    """The times since when all attempts to write a cluster's objects are refused. `of` is the uid of the cluster."""

    _since: ChangedMessages[str] = field(default_factory=ChangedMessages)

    def lasts(self, of: str, error: KubeError) -> bool:
        """Record that the API server refused a request, which may pass.

        Return whether refusals have lasted for `TOLD_AFTER_S`.

        Two errors do not count. Without an answer of the API server no status can be written either, and the deletion
        of a namespace ends without help.
        """
        if error.status is None or isinstance(error, NamespaceGoingError):
            return False
        lasted_s = self._since.note(of, "refused", asyncio.get_running_loop().time())
        return lasted_s is not None and lasted_s >= TOLD_AFTER_S

    def may_pass(self, of: str, error: KubeError) -> bool:
        """Return whether a refusal may pass and has not lasted yet.

        Such a refusal is retried, and no status reports it.
        """
        return error.retriable and not self.lasts(of, error)

    def ended(self, of: str) -> None:
        """Record an attempt in which nothing was refused."""
        self._since.forget(of)
