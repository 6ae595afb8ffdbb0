"""Encoded answers that are the same for everybody until the metadata changes. Pure.

To encode what is about all partitions takes some milliseconds for a few thousand of them, and when a broker has been
restarted all clients ask for it at once.
"""

from collections.abc import Callable

from broker_runtime.apis.call import Call
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.reply import Reply

_KEPT_MAX = 8


class KeptAnswers:
    """Owns the bodies of the newest answers of one API, by version, listener and options.

    All bodies follow from one state of the metadata.
    """

    __slots__ = ("_bodies", "_offset", "_topics")

    def __init__(self) -> None:
        self._topics: object = None
        self._offset = -1
        self._bodies: dict[tuple[int, str, int], tuple[bytes, int]] = {}

    def reply(self, call: Call, image: MetadataImage, answer: Callable[[], bytes], options: int = 0) -> Reply:
        """`answer` must follow from `image`, from the version and the listener of the call, and from `options` alone.
        It leaves an error that it has in `call.error`."""
        # A whole image that takes the place of another one may have its offset.
        if self._topics is not image.topics or self._offset != image.offset:
            self._bodies.clear()
            self._topics, self._offset = image.topics, image.offset
        key = call.version, call.listener, options
        kept = self._bodies.get(key)
        if kept is None:
            if len(self._bodies) >= _KEPT_MAX:
                self._bodies.clear()
            kept = answer(), call.error
            self._bodies[key] = kept
        body, call.error = kept
        return call.packed(body)
