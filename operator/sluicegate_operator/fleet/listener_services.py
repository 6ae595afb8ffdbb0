"""Brings the Services of listeners to what they should be, and reads what has been made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.kube.children import name_taken
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import KubeError, NameTakenError
from sluicegate_operator.kube.kinds import SERVICE
from sluicegate_operator.planning.exposure import ServiceSeen, service_seen
from sluicegate_operator.resources.labels import MANAGED_BY_LABEL, MANAGER
from sluicegate_operator.resources.owner import is_controlled_by, why_not_ours

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListenerServices:
    """`seen` by the Service's name. `name_taken`, `refusal` and `not_applied` say why one of them is not there, or not
    as it should be; `not_applied` is a refusal that may pass and has lasted."""

    seen: Mapping[str, ServiceSeen] = field(default_factory=dict)
    name_taken: str = ""
    refusal: str = ""
    not_applied: KubeError | None = None


async def read_services(kube: KubeClient, cluster: BrokerCluster) -> list[Json]:
    """All that the operator has made for the cluster, also those of no listener. Raises KubeError."""
    return await kube.cache.list(SERVICE, cluster.namespace, cluster.name, **{MANAGED_BY_LABEL: MANAGER})


def services_of(listener: BrokerListener, services: Sequence[Json]) -> ListenerServices:
    own = [found for found in services if is_controlled_by(found, listener.metadata.uid)]
    return ListenerServices({found["metadata"]["name"]: service_seen(found, listener.spec.port) for found in own})


async def held_services(
    kube: KubeClient, listener: BrokerListener, wanted: Sequence[Json], services: Sequence[Json]
) -> ListenerServices:
    """The listener's Services as they are, for a look that changes nothing. `name_taken` says which name another
    object has. Raises KubeError.

    The look ends at the first Service that is not there, so it costs one request at most."""
    own = services_of(listener, services)
    for child in wanted:
        name = child["metadata"]["name"]
        if name in own.seen:
            continue
        found = await kube.get(SERVICE, listener.namespace, name)
        why = why_not_ours(found, child) if found is not None else ""
        return replace(own, name_taken=str(name_taken(child, why))) if why else own
    return own


async def apply_services(
    kube: KubeClient, listener: BrokerListener, wanted: Sequence[Json], services: Sequence[Json]
) -> ListenerServices:
    """`services` are those of read_services: what the listener has there and does not want is deleted. Raises KubeError
    for what may pass."""
    seen, taken, refusal = {}, "", ""
    for child in wanted:
        try:
            found = await kube.apply(child)
        except NameTakenError as error:
            taken = taken or str(error)
            continue
        except KubeError as error:
            if error.retriable:
                raise
            refusal = refusal or str(error)
            continue
        seen[child["metadata"]["name"]] = service_seen(found, listener.spec.port)
    kept = {child["metadata"]["name"] for child in wanted}
    for service in services:
        meta = service["metadata"]
        if is_controlled_by(service, listener.metadata.uid) and meta["name"] not in kept:
            await kube.delete(SERVICE, listener.namespace, meta["name"], uid=meta["uid"])
    return ListenerServices(seen, taken, refusal)
