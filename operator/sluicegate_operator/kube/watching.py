"""A thread that lists one kind and then hears of each change of it, for as long as it is asked to.

A list comes in pages. A watch is asked again where it ended, by the server's time limit or by a silence that is longer
than it; one whose past the API server has forgotten (410) lists anew, as does one that is ahead of an API server whose
storage was restored: to that it would say nothing for as long. Everything is handed to `Heard`, in order.
"""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3

from sluicegate_operator.kube.api_server import ApiServer, refusal_of
from sluicegate_operator.kube.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.held import Held, Reader, version_of
from sluicegate_operator.kube.kind_cache import Key
from sluicegate_operator.kube.kinds import Kind

log = logging.getLogger(__name__)

Json = dict[str, Any]

PAGE = 500
SILENCE_MARGIN_S = 5.0
"""Beyond the time after which the server ends a watch: what has said nothing by then was cut off."""
CONNECT_TIMEOUT_S = 5.0
LIST_TIMEOUT_S = 30.0
AGAIN_FIRST_S = 0.5
AGAIN_MAX_S = 10.0
NOT_SERVED_S = 2.0
"""A CRD that is not there may come at any time."""
SHORTEST_S = 1.0
"""No watch is asked again sooner after the one before."""
LINE_MAX = 8 << 20
"""Bytes of an event; an object has at most 1.5 MB."""
GONE = 410
METADATA_ONLY = "application/json;as={};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched of a kind. `period_s`: the watch is asked again so often; `metadata_only`: nothing else of the
    objects is sent; `trim`: see Reader."""

    kind: Kind
    period_s: int
    selector: str = ""
    metadata_only: bool = False
    trim: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None


class Heard(Protocol):
    """Called in the thread of the watch; may make it wait."""

    def known(self, kind: Kind, key: Key) -> Held | None: ...

    def put(self, kind: Kind, held: Held) -> None:
        """A list has it."""

    def heard(self, kind: Kind, held: Held) -> None:
        """The watch says so, and has said everything before it."""

    def gone(self, kind: Kind, key: Key, version: int) -> None: ...

    def listed(self, kind: Kind, keys: Collection[Key], version: int) -> None:
        """All of them were put, and there are no others."""

    def restored(self, kind: Kind) -> None:
        """What the API server says from now on is of lower versions than what it has said."""

    def word(self, kind: Kind, version: int) -> None:
        """The watch goes on, and has said everything up to `version`."""

    def trouble(self, kind: Kind, error: KubeError) -> None: ...


class _ForgottenError(Exception):
    """410: the API server no longer has what came after our resourceVersion."""


class Watching:
    """One kind, in one namespace or in all."""

    def __init__(self, server: ApiServer, watched: Watched, namespace: str | None, heard: Heard) -> None:
        self._server = server
        self._watched = watched
        self._path = watched.kind.path(namespace)
        self._heard = heard
        self._reader = Reader(watched.trim)
        self._stopped = threading.Event()
        self._newest = 0
        """The highest version that the API server has told."""
        self._cut_off = False
        """It may be another one by now, or have another past."""
        self._answer: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {watched.kind.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It ends soon; nobody waits for it."""
        self._stopped.set()
        answer = self._answer
        if answer is not None:
            try:
                answer.shutdown()
            except (OSError, ValueError, RuntimeError) as error:
                log.debug("the watch of %s was over already: %s", self._watched.kind.plural, error)

    def _run(self) -> None:
        version, failures = "", 0
        while not self._stopped.is_set():
            try:
                if version and self._cut_off and self._is_behind(version):
                    version = ""
                version = version or self._list()
                version = self._follow(version)
                failures = 0
            except _ForgottenError:
                failures, version = failures + 1, ""
                if failures > 1:
                    # No past lasts for as long as a list takes.
                    self._stopped.wait(_pause_s(failures - 1))
            except KubeError as error:
                if self._stopped.is_set():
                    return
                failures, self._cut_off = failures + 1, True
                if error.status == 404:
                    version = ""
                self._heard.trouble(self._watched.kind, error)
                self._stopped.wait(_pause_s(failures, error))
            except Exception as error:
                # A watch that has ended would be taken for one that is quiet.
                failures, version = failures + 1, ""
                log.exception("the watch of %s failed and lists anew", self._watched.kind.plural)
                trouble = KubeUnavailableError(f"the watch of {self._watched.kind.plural} failed: {error!r}")
                self._heard.trouble(self._watched.kind, trouble)
                self._stopped.wait(_pause_s(failures, trouble))

    def _is_behind(self, version: str) -> bool:
        """Whether the API server has not got so far yet, which it had."""
        now = self._page({**self._query(), "limit": "1"})["metadata"]["resourceVersion"]
        self._cut_off = False
        return int(now) < int(version)

    def _list(self) -> str:
        keys: set[Key] = set()
        token, restored = "", False
        while True:
            query = {**self._query(), "limit": str(PAGE), **({"continue": token} if token else {})}
            page = self._page(query)
            if not token and int(page["metadata"]["resourceVersion"]) < self._newest:
                log.warning("the API server counts from an older version: all %s are read", self._watched.kind.plural)
                restored, self._newest = True, 0
                self._heard.restored(self._watched.kind)
            # Of metadata alone an empty list is null.
            for item in page.get("items") or ():
                key, version = _key(item), version_of(item["metadata"])
                held = self._heard.known(self._watched.kind, key)
                keys.add(key)
                if restored or held is None or held.version != version:
                    self._heard.put(self._watched.kind, self._reader.held(self._watched.kind, item))
            token = page["metadata"].get("continue") or ""
            if not token:
                version = page["metadata"]["resourceVersion"]
                self._newest, self._cut_off = int(version), False
                self._heard.listed(self._watched.kind, keys, int(version))
                return str(version)

    def _page(self, query: Mapping[str, str]) -> Json:
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=LIST_TIMEOUT_S)
        answer = self._open(query, timeout, preload=True)
        page: Json = json.loads(answer.data)
        return page

    def _follow(self, version: str) -> str:
        """Until the watch ends; from where the next one goes on."""
        period_s = self._watched.period_s
        query = self._query() | {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(period_s),
        }
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=period_s + SILENCE_MARGIN_S)
        began_s = time.monotonic()
        answer = self._answer = self._open(query, timeout, preload=False)
        try:
            self._heard.word(self._watched.kind, int(version))
            for line in _lines(answer):
                version = self._take(json.loads(line), version)
        except urllib3.exceptions.ReadTimeoutError:
            self._cut_off = True
            log.warning("the watch of %s was silent and is asked again", self._watched.kind.plural)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._cut_off = True
            log.info("the watch of %s was cut off and is asked again: %s", self._watched.kind.plural, error)
        finally:
            self._answer = None
            answer.close()
        self._stopped.wait(max(0.0, SHORTEST_S - (time.monotonic() - began_s)))
        return version

    def _take(self, event: Json, version: str) -> str:
        """From where to go on after it."""
        kind, type_, item = self._watched.kind, event["type"], event["object"]
        if type_ == "ERROR":
            if item.get("code") == GONE:
                raise _ForgottenError
            raise KubeError(f"watch of {kind.plural}: {item.get('message')}", item.get("code"), retriable=True)
        if type_ in ("ADDED", "MODIFIED"):
            self._heard.heard(kind, self._reader.held(kind, item))
        elif type_ == "DELETED":
            self._heard.gone(kind, _key(item), version_of(item["metadata"]))
        else:
            self._heard.word(kind, version_of(item["metadata"]))
        version = str(item["metadata"].get("resourceVersion") or version)
        self._newest = max(self._newest, int(version))
        return version

    def _query(self) -> dict[str, str]:
        return {"labelSelector": self._watched.selector} if self._watched.selector else {}

    def _open(self, query: Mapping[str, str], timeout: urllib3.Timeout, *, preload: bool) -> urllib3.BaseHTTPResponse:
        accept = "application/json"
        if self._watched.metadata_only:
            accept = METADATA_ONLY.format("PartialObjectMetadata" + ("List" if preload else ""))
        answer = self._server.open(self._path, query, timeout=timeout, accept=accept, preload=preload)
        if answer.status == GONE:
            answer.close()
            raise _ForgottenError
        if answer.status != 200:
            raise refusal_of("GET", self._path, answer.status, _text(answer))
        return answer


def _key(item: Json) -> Key:
    meta = item["metadata"]
    return meta.get("namespace") or "", meta["name"]


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(1 << 16, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)
        if len(rest) > LINE_MAX:
            raise KubeUnavailableError("the API server sends an event without an end")


def _pause_s(failures: int, error: KubeError | None = None) -> float:
    """With chance in it: all watches fail at one time."""
    if error is not None and error.status == 404:
        return NOT_SERVED_S
    told_s = error.retry_after_s if error is not None else None
    wanted_s = min(AGAIN_MAX_S, AGAIN_FIRST_S * 2 ** min(failures - 1, 8))
    return float(max(told_s or 0.0, wanted_s) * random.uniform(0.5, 1.0))


def _text(answer: urllib3.BaseHTTPResponse) -> str:
    try:
        return answer.data.decode("utf-8", "replace")
    except urllib3.exceptions.HTTPError as error:
        return f"(and no more: {error})"
