"""The active controller's view of each broker, for GET /brokers (seed 004's states).

Pure: metadata, sessions and the time come as arguments, and plain values for JSON are returned. This module makes no
decisions, and does not know its callers.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from broker_runtime.controller.registration import state_of
from broker_runtime.controller.sessions import Sessions
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.image import MetadataImage

Json = Mapping[str, object]


SILENT_STEPS_S = (3, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
"""Ages of a broker's last heartbeat in seconds. The view's version changes when an age reaches one of them."""


@dataclass(slots=True)
class _Load:
    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


def overview(image: MetadataImage, sessions: Sessions, now_s: float, inter_broker_listener: str) -> Json:
    """Return the controller's view of all brokers.

    `inter_broker_listener` may be empty, because a controller-only process does not know it; then the first listener is
    shown.
    """
    loads = _loads(image)
    return {
        "clusterId": image.cluster.id,
        "controllerId": image.cluster.controller_id,
        "controllerEpoch": image.cluster.controller_epoch,
        "metadataOffset": image.offset,
        "version": view_version(image, sessions, now_s),
        "brokers": [
            _broker(broker, image, sessions, now_s)
            | _load(loads.get(broker.id, _Load()))
            | {"host": _host(broker, inter_broker_listener)}
            for broker in sorted(image.brokers.values(), key=lambda broker: broker.id)
        ],
    }


def view_version(image: MetadataImage, sessions: Sessions, now_s: float) -> str:
    """Return the version of the overview, which changes when the overview has something new to show.

    Changes of sessions, which are not metadata, change the version too. The age of a heartbeat changes the version only
    when it passes one of SILENT_STEPS_S. The cost is linear in the number of brokers.
    """
    seen = (
        f"{broker.id}:{state_of(broker, sessions, now_s).value[:2]}{_silence(sessions.age(broker.id, now_s))}"
        for broker in sorted(image.brokers.values(), key=lambda broker: broker.id)
    )
    return f"{image.cluster.controller_epoch},{image.offset},{zlib.crc32(' '.join(seen).encode())}"


def _silence(age_s: float | None) -> int:
    return -1 if age_s is None else sum(age_s >= step_s for step_s in SILENT_STEPS_S)


def not_active(active_controller_id: int | None) -> Json:
    return {"error": "this controller is not the active one", "activeControllerId": active_controller_id}


def _broker(broker: BrokerInfo, image: MetadataImage, sessions: Sessions, now_s: float) -> dict[str, object]:
    age_s = sessions.age(broker.id, now_s)
    offset = sessions.metadata_offset(broker.id)
    return {
        "id": broker.id,
        "epoch": broker.epoch,
        "incarnation": str(broker.incarnation),
        "state": state_of(broker, sessions, now_s).value,
        "rack": broker.rack,
        "heartbeatAgeSeconds": None if age_s is None else round(age_s, 3),
        "metadataLag": None if age_s is None or offset < 0 else max(image.offset - offset, 0),
    }


def _load(load: _Load) -> dict[str, object]:
    return {"leaders": load.leaders, "replicas": load.replicas, "outOfSync": load.out_of_sync}


def _host(broker: BrokerInfo, listener: str) -> str | None:
    endpoint = broker.endpoint(listener) or next(iter(broker.endpoints), None)
    return None if endpoint is None else endpoint.host


def _loads(image: MetadataImage) -> Mapping[int, _Load]:
    """Count leaders and replicas of all brokers in one walk over all partitions."""
    loads: dict[int, _Load] = {}
    for topic in image.topics.values():
        for part in topic.partitions.values():
            for replica in part.replicas:
                load = loads.setdefault(replica, _Load())
                load.replicas += 1
                load.leaders += part.leader == replica
                load.out_of_sync += replica not in part.isr
    return loads
