"""Encoded answers that are the same for all clients until the metadata changes. Pure.

Encoding all partitions takes some milliseconds for a few thousand of them, and after a broker's restart all clients
request it at once. All calls that wait for the same answer run the same steps.
"""

from collections.abc import Callable, Sequence

from broker_runtime.apis.request.call import Call
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps, each
from broker_runtime.wire.answer_memory import SharedBytes
from broker_runtime.wire.limits import ResponseTooLargeError
from broker_runtime.wire.messages import with_throttle_time
from broker_runtime.wire.reply import Reply

_KEPT_MAX = 8

Body = tuple[Sequence[bytes], int]
"""The pieces of an answer's body, and the first error code in the body."""


class _Making:
    """A body that the calls waiting for it encode together. Each of them runs some of the steps."""

    __slots__ = ("body", "is_over", "problem", "steps")

    def __init__(self, steps: Steps[Body]) -> None:
        self.steps = steps
        self.body: Body | None = None
        self.problem = ""
        """Why the body would be too large; empty if encoding it has failed. Each call raises its own error."""
        self.is_over = False
        """Whether encoding has ended, with or without a body."""

    def made(self) -> Steps[Body]:
        """Run the remaining steps. Returns the body.

        Raises ResponseTooLargeError, and RuntimeError if the steps failed in another call.
        """
        while not self.is_over:
            self.is_over = True
            try:
                next(self.steps)
            except StopIteration as ended:
                self.body = ended.value
            except ResponseTooLargeError as error:
                self.problem = str(error)
            else:
                self.is_over = False
                yield
        if self.body is None and not self.problem:
            raise RuntimeError("the response could not be encoded; the call that encoded it has the error")
        if self.body is None:
            raise ResponseTooLargeError("response-too-large", self.problem)
        return self.body


class AnswerCache:
    """The cached bodies of answers of one API, by version, listener and options.

    All cached bodies belong to the same state of the metadata.
    """

    __slots__ = ("_bodies", "_offset", "_topics")

    def __init__(self) -> None:
        self._topics: object = None
        self._offset = -1
        self._bodies: dict[tuple[int, str, int], _Making] = {}

    def reply(
        self, call: Call, image: MetadataImage, answer: Callable[[], Steps[Body]], options: int = 0
    ) -> Reply | Steps[Reply]:
        """Return the reply with the cached body, or with the body from `answer`.

        `answer` must depend only on `image`, the version and listener of the call, and `options`.
        """
        # An image loaded as a whole may have the same offset as the image that it replaces.
        if self._topics is not image.topics or self._offset != image.offset:
            self._bodies.clear()
            self._topics, self._offset = image.topics, image.offset
        key = call.version, call.listener, options
        kept = self._bodies.get(key)
        if kept is None or (kept.is_over and kept.body is None):
            if len(self._bodies) >= _KEPT_MAX:
                self._bodies.clear()
            kept = self._bodies[key] = _Making(_shared(answer()))
        return _later(call, kept) if kept.body is None else _reply(call, kept.body)


def _shared(making: Steps[Body]) -> Steps[Body]:
    """Return the body in pieces whose memory is counted once, however many clients do not read them."""
    pieces, error = yield from making
    return (yield from each(pieces, SharedBytes)), error


def _later(call: Call, kept: _Making) -> Steps[Reply]:
    return _reply(call, (yield from kept.made()))


def _reply(call: Call, body: Body) -> Reply:
    pieces, call.error = body
    return call.packed_of(with_throttle_time(call.api.key, call.version, call.throttle_ms, pieces))
