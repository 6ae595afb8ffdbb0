"""The active controller's view of its brokers, as served at `GET /brokers`; seed 004 names the states.

The module only parses that document: it knows neither pods nor HTTP. It is strict, because rolls and fencing depend on
it: a document that it does not understand is an error and never an empty cluster.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID


class BrokerState(StrEnum):
    """The state of a broker at the active controller.

    The values are those of the controller's HTTP answer and of BrokerRegistration.
    """

    OFFLINE = "Offline"
    """The broker is registered without a live session: it is not running, or works on its own disk."""
    FENCED = "Fenced"
    ONLINE = "Online"
    STOPPING = "Stopping"


class OverviewError(ValueError):
    """Error for a controller's document whose format this operator does not know."""


@dataclass(frozen=True, slots=True)
class BrokerOverview:
    """A broker in the controller's view.

    - `out_of_sync`: number of its replicas that are not in their in-sync set.
    - `metadata_lag`: records that it was behind at its last heartbeat.
    - `host`: host of its inter-broker endpoint.
    - `began_ms`: when its process started, by that host's clock, if its incarnation contains it.
    """

    id: int
    epoch: int
    incarnation: str
    state: BrokerState
    rack: str | None = None
    heartbeat_age_s: float | None = None
    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    metadata_lag: int | None = None
    host: str | None = None
    began_ms: int | None = None

    @property
    def has_session(self) -> bool:
        return self.state is not BrokerState.OFFLINE


@dataclass(frozen=True, slots=True)
class ClusterOverview:
    """The controller's view of the cluster. `brokers` are in order of id."""

    cluster_id: str
    controller_id: int
    controller_epoch: int
    metadata_offset: int
    brokers: tuple[BrokerOverview, ...] = ()
    version: str = ""
    """Version of the view, which changes when the view changes.

    Empty if the controller does not support waiting for a change.
    """

    def broker(self, broker_id: int) -> BrokerOverview | None:
        return next((broker for broker in self.brokers if broker.id == broker_id), None)

    @property
    def online(self) -> frozenset[int]:
        return frozenset(broker.id for broker in self.brokers if broker.state is BrokerState.ONLINE)


def parse_overview(body: bytes | str) -> ClusterOverview:
    """Parse the body of the controller's answer 200. Raises OverviewError."""
    document = _document(body)
    brokers = _field(document, "brokers", list)
    overview = ClusterOverview(
        cluster_id=_field(document, "clusterId", str),
        controller_id=_field(document, "controllerId", int),
        controller_epoch=_field(document, "controllerEpoch", int),
        metadata_offset=_field(document, "metadataOffset", int),
        version=_field(document, "version", str) if "version" in document else "",
        brokers=tuple(sorted((_broker(broker) for broker in brokers), key=lambda broker: broker.id)),
    )
    ids = [broker.id for broker in overview.brokers]
    if len(set(ids)) != len(ids):
        raise OverviewError(f"the controller's view lists a broker twice: {ids}")
    return overview


def parse_active_controller(body: bytes | str) -> int | None:
    """Parse the body of the controller's answer 503: the id of the active controller; None if unknown.

    Raises OverviewError.
    """
    found: int | None = _optional(_document(body), "activeControllerId", int)
    return found


def _document(body: bytes | str) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise OverviewError(f"the controller's view is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise OverviewError("the controller's view is not a JSON object")
    return document


def _broker(document: object) -> BrokerOverview:
    if not isinstance(document, dict):
        raise OverviewError("brokers: must be a list of objects")
    state = _field(document, "state", str)
    if state not in set(BrokerState):
        raise OverviewError(f"state: this operator does not know the broker state {state!r}")
    age_s = _optional(document, "heartbeatAgeSeconds", (int, float))
    incarnation = _field(document, "incarnation", str)
    return BrokerOverview(
        id=_field(document, "id", int),
        epoch=_field(document, "epoch", int),
        incarnation=incarnation,
        state=BrokerState(state),
        rack=_optional(document, "rack", str),
        heartbeat_age_s=None if age_s is None else float(age_s),
        leaders=_field(document, "leaders", int),
        replicas=_field(document, "replicas", int),
        out_of_sync=_field(document, "outOfSync", int),
        metadata_lag=_optional(document, "metadataLag", int),
        host=_optional(document, "host", str),
        began_ms=_began_ms(incarnation),
    )


def _began_ms(incarnation: str) -> int | None:
    try:
        return time_of_uuid(UUID(incarnation))
    except ValueError:
        raise OverviewError(f"incarnation: {incarnation!r} is not a UUID") from None


def time_of_uuid(found: UUID) -> int | None:
    """Return the time in a UUID in milliseconds; None for a UUID without a time.

    A UUID of version 7 begins with its time (RFC 9562); incarnations of other brokers are random.
    """
    return found.int >> 80 if found.version == 7 else None


def _field(document: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    if name not in document:
        raise OverviewError(f"{name}: the field is missing in the controller's view")
    value = document[name]
    # A bool is an int to Python, but never in the controller's document.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise OverviewError(f"{name}: {value!r} in the controller's view has the wrong type")
    return value


def _optional(document: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    return None if name in document and document[name] is None else _field(document, name, kind)
