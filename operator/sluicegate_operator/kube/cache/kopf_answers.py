"""Answers to kopf's requests, with the part of aiohttp.ClientResponse that kopf reads."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

import aiohttp

from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.transport import Response

log = logging.getLogger(__name__)

LINE_MAX = 8 << 20
"""Limit of an event in bytes. An object has at most 1.5 MB."""
GONE = 410
_CHANGES = ("ADDED", "MODIFIED")
_GONE_EVENT = json.dumps({"type": "ERROR", "object": {"code": GONE, "message": "list again"}}).encode() + b"\n"


class Answer:
    """A complete answer of the API server with status 200."""

    status = 200

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def content(self) -> Self:
        return self

    def close(self) -> None:
        """Do nothing: no connection is open."""


class Document(Answer):
    """An answer from the cache to kopf that is one JSON document."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__()
        self._body = body

    async def json(self) -> Mapping[str, Any]:
        return self._body


class Gone(Answer):
    """The answer of a watch that has ended with 410, after which kopf lists the kind again."""

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        yield _GONE_EVENT


class WatchAnswer(Answer):
    """The answer of a watch, in chunks of whole events. An error that would end kopf ends this watch alone.

    kopf does not get an event that the cache has already from the answer to a write: kopf takes half a millisecond for
    each event.
    """

    def __init__(
        self,
        response: Response,
        plural: str,
        *,
        contact: Callable[[], None],
        fail: Callable[[KubeError], None],
        ended: Callable[[], None],
        is_known: Callable[[str, Mapping[str, Any]], bool],
    ) -> None:
        """Create the answers. Call `contact` at each chunk, `fail` at an error, `ended` at the watch's orderly end.

        `is_known` returns, by the type of an event and its object, whether the cache has it already.
        """
        super().__init__()
        self._response = response
        self._plural = plural
        self._contact = contact
        self._fail = fail
        self._ended = ended
        self._is_known = is_known

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield the events of a watch, in chunks of whole events.

        Raises aiohttp.ClientError if the watch was cut off: kopf resumes after the last event.
        """
        rest = b""
        try:
            async for chunk in self._response.content.iter_chunked(size):
                self._contact()
                events, newline, rest = (rest + chunk).rpartition(b"\n")
                if news := self._unknown(events):
                    yield b"\n".join(news) + newline
                if not newline and len(rest) > LINE_MAX:
                    raise self._refused(
                        KubeError("the API server sent an event that exceeds the size limit", retriable=True)
                    )
        except TimeoutError as error:
            log.warning("the watch of %s was silent and is requested again", self._plural)
            raise aiohttp.ClientPayloadError("the watch was silent") from error
        except (aiohttp.ClientError, OSError) as error:
            log.info("the watch of %s was interrupted and is requested again: %s", self._plural, error)
            raise
        if rest:
            raise aiohttp.ClientPayloadError("the watch has ended within an event")
        self._ended()

    def close(self) -> None:
        self._response.close()

    def _unknown(self, events: bytes) -> list[bytes]:
        """Return the lines of events that kopf must get.

        kopf ends for all kinds at an error but 410, and at a line that is not an event.
        """
        news = []
        for line in filter(None, events.split(b"\n")):
            event = _object(line)
            found, type_ = _object(event.get("object")), event.get("type")
            if type_ == "ERROR" and found:
                if found.get("code") != GONE:
                    message = f"watch of {self._plural}: {found.get('message')}"
                    raise self._refused(KubeError(message, found.get("code"), retriable=True))
            elif not isinstance(type_, str) or not has_metadata(found):
                message = f"the watch of {self._plural} has sent something that is not an event: {line[:80]!r}"
                raise self._refused(KubeError(message, retriable=True))
            elif type_ in _CHANGES and self._is_known(type_, found):
                continue
            news.append(line)
        return news

    def _refused(self, error: KubeError) -> aiohttp.ClientPayloadError:
        self._fail(error)
        return aiohttp.ClientPayloadError(str(error))


def has_metadata(item: object) -> bool:
    """Return whether the item looks like an object of an API server."""
    return isinstance(item, Mapping) and isinstance(item.get("metadata"), Mapping)


def _object(found: object) -> Mapping[str, Any]:
    """Return the JSON object, parsed if it is text; empty if it is anything else."""
    if isinstance(found, bytes):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    return found if isinstance(found, Mapping) else {}
