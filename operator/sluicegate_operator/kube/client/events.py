"""Kubernetes Events (core/v1) of what the operator did to an object: for `kubectl describe` only, nothing reads them.

The same event within ten minutes increments a count in the first Event, which is written at most once a minute. So a
reconcile that fails repeatedly neither floods etcd nor hides other events. This is also true across terms: a new term
first reads the Events that the previous term posted in the namespace.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError, NamespaceGoingError
from sluicegate_operator.kube.http.kinds import EVENT

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
Key = tuple[str, ...]

COMPONENT = "sluicegate-operator"
SAME_FOR_S = 600.0
REPEAT_EVERY_S = 60.0
KEYS_MAX = 1000
MESSAGE_MAX = 1024
"""Maximum length of an Event's message in characters. MESSAGE_MAX and REASON_MAX are the API server's limits."""
REASON_MAX = 128


@dataclass(slots=True)
class Series:
    """One Event, and how often the same event has happened.

    Times are wall-clock times, because the Event contains them.
    """

    first: datetime
    last: datetime
    posted: datetime | None = None
    """Time when the API server last answered a request for the Event, even by a refusal."""
    count: int = 0
    name: str = ""
    """The name of the Event; empty until the Event is posted or read."""


class RecentEvents:
    """Remembers the last `KEYS_MAX` different Kubernetes Events.

    The event that was repeated least recently is evicted first.
    """

    def __init__(self) -> None:
        self._series: OrderedDict[Key, Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def note(self, key: Key, now: datetime) -> Series:
        series = self._series.pop(key, None)
        if series is None or (now - series.last).total_seconds() >= SAME_FOR_S:
            series = Series(now, now)
        series.count += 1
        series.last = now
        self._series[key] = series
        if len(self._series) > KEYS_MAX:
            self._series.popitem(last=False)
        return series

    def remember(self, key: Key, series: Series) -> None:
        """Add a series that another process has posted, unless the key is already known."""
        if key not in self._series and len(self._series) < KEYS_MAX:
            self._series[key] = series
            self._series.move_to_end(key, last=False)


def worth_posting(series: Series, now: datetime) -> bool:
    return series.posted is None or (now - series.posted).total_seconds() >= REPEAT_EVERY_S


class EventRecorder:
    """Posts Events. A repeated event becomes one Event with a count. Keeps no durable state."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._clock = clock
        self._recent = RecentEvents()
        self._began = clock()
        self._read: dict[str, asyncio.Task[None]] = {}
        """The tasks that read the Events of earlier terms, by namespace."""

    async def record(self, involved: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        """Post an event about `involved`, which has apiVersion, kind and metadata.

        An event that cannot be posted is logged. A refused event is tried again no sooner than a repeated event is
        written.
        """
        now = self._clock()
        reference, reason, message = object_reference(involved), reason[:REASON_MAX], message[:MESSAGE_MAX]
        await self._read_earlier(reference["namespace"], now)
        key = (*reference.values(), type_, reason, message)
        series = self._recent.note(key, now)
        if not worth_posting(series, now):
            return
        series.name = series.name or _event_name(reference["name"], key, series)
        event = {**self._event(reference, series), "type": type_, "reason": reason, "message": message}
        meta = event["metadata"]
        posted, series.posted = series.posted, now
        try:
            if series.count == 1:
                await self._client.create(EVENT, meta["namespace"], event)
            else:
                # A PUT without a resourceVersion: the API server creates the Event if it has expired or was never
                # posted.
                await self._client.replace(EVENT, meta["namespace"], meta["name"], event)
        except KubeError as error:
            if error.status is None:
                # Nothing was sent or answered: the next event of the series tries again. A refusal would be repeated.
                series.posted = posted
            level = logging.INFO if isinstance(error, NamespaceGoingError) else logging.WARNING
            log.log(
                level, "event %s of %s %s was not recorded: %s", reason, reference["kind"], reference["name"], error
            )

    async def _read_earlier(self, namespace: str, now: datetime) -> None:
        """Read the Events of an earlier term, once for each namespace, while such Events can still be recent."""
        if (now - self._began).total_seconds() >= SAME_FOR_S:
            return
        if namespace not in self._read:
            self._read[namespace] = asyncio.create_task(self._remember_earlier(namespace))
        await asyncio.shield(self._read[namespace])

    async def _remember_earlier(self, namespace: str) -> None:
        try:
            found = await self._client.list(EVENT, namespace, field_selector=f"source={COMPONENT}")
        except KubeError as error:
            log.info("the events of namespace %s cannot be read, so some may be recorded twice: %s", namespace, error)
            return
        for event in sorted(found, key=lambda one: one.get("lastTimestamp") or "", reverse=True):
            if (read := _series_of(event)) is not None and (self._began - read[1].last).total_seconds() < SAME_FOR_S:
                self._recent.remember(*read)

    def _event(self, reference: Mapping[str, str], series: Series) -> dict[str, Any]:
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": series.name, "namespace": reference["namespace"]},
            "involvedObject": dict(reference),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "action": "Reconcile",
            "firstTimestamp": _timestamp(series.first),
            "lastTimestamp": _timestamp(series.last),
            "count": series.count,
        }


def object_reference(involved: Mapping[str, Any]) -> dict[str, str]:
    meta = involved["metadata"]
    return {
        "apiVersion": involved["apiVersion"],
        "kind": involved["kind"],
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta.get("uid") or "",
    }


def _series_of(event: Mapping[str, Any]) -> tuple[Key, Series] | None:
    """Return the key and series that `record` would have noted for this Event; None for an Event of another form."""
    involved = event.get("involvedObject") or {}
    try:
        first, last = (datetime.fromisoformat(event[field]) for field in ("firstTimestamp", "lastTimestamp"))
        parts = [involved[field] for field in ("apiVersion", "kind", "namespace", "name")]
        key = (*parts, involved.get("uid") or "", event["type"], event["reason"], event["message"])
        return key, Series(first, last, posted=last, count=int(event["count"]), name=event["metadata"]["name"])
    except (KeyError, TypeError, ValueError):
        return None


def _event_name(name: str, key: Key, series: Series) -> str:
    """Return the name of a series' Event. The next series of the same event gets another name.

    A part of a DNS subdomain ends with a letter or a digit, also after the cut.
    """
    text = "\0".join((*key, series.first.isoformat()))
    return f"{name[:200].rstrip('-.')}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _timestamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
