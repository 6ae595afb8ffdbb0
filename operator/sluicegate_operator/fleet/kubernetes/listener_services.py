"""Bring the Services of listeners to their wanted state, and read the addresses that they got."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.kube.client.children import name_taken
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import SERVICE
from sluicegate_operator.planning.listeners.exposure import ServiceSeen, service_seen
from sluicegate_operator.resources.labels import LISTENER_LABEL, MANAGED_BY_LABEL, MANAGER
from sluicegate_operator.resources.listener_services import is_service_name, listener_service
from sluicegate_operator.resources.owner import is_controlled_by, why_not_ours

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListenerServices:
    """The Services of a listener.

    `seen` is by the Service's name. `name_taken`, `refusal` and `not_applied` are why one of them is missing or
    outdated; `not_applied` is a refusal that may pass and has lasted. `left_over` is the first refusal to delete a
    Service that the listener does not need any more.
    """

    seen: Mapping[str, ServiceSeen] = field(default_factory=dict)
    name_taken: str = ""
    refusal: str = ""
    not_applied: KubeError | None = None
    left_over: KubeError | None = None


async def read_services(kube: KubeClient, cluster: BrokerCluster) -> list[Json]:
    """Return all Services that the operator has created for the cluster, with or without a listener.

    Raises KubeError.
    """
    return await kube.cache.list(SERVICE, cluster.namespace, cluster.name, **{MANAGED_BY_LABEL: MANAGER})


def services_of(listener: BrokerListener, services: Sequence[Json]) -> ListenerServices:
    own = [found for found in services if _is_own(listener, found)]
    return ListenerServices({found["metadata"]["name"]: service_seen(found, listener.spec.port) for found in own})


def _is_own(listener: BrokerListener, service: Json) -> bool:
    """Return whether the operator has created `service` for the listener.

    A Service that was orphaned, as by `kubectl delete --cascade=orphan`, has no controller, or one that is gone. It
    counts if it has all labels of the listener's Services and a name that the operator gives to them.
    """
    if is_controlled_by(service, listener.metadata.uid):
        return True
    meta = service["metadata"]
    if (meta.get("labels") or {}).get(LISTENER_LABEL) != listener.spec.name:
        return False
    return is_service_name(listener, meta["name"]) and not why_not_ours(service, listener_service(listener))


async def found_services(
    kube: KubeClient, listener: BrokerListener, wanted: Sequence[Json], services: Sequence[Json]
) -> ListenerServices:
    """Return the listener's Services without changing them. Raises KubeError.

    `name_taken` is about the name that another object has. The function returns at the first missing Service, so it
    costs at most one request.
    """
    own = services_of(listener, services)
    for child in wanted:
        name = child["metadata"]["name"]
        if name in own.seen:
            continue
        found = await kube.get(SERVICE, listener.namespace, name)
        if found is None or not (why := why_not_ours(found, child)):
            return own
        return replace(own, name_taken=str(name_taken(child, found, why)))
    return own


async def apply_services(
    kube: KubeClient, listener: BrokerListener, wanted: Sequence[Json], services: Sequence[Json]
) -> ListenerServices:
    """Apply the wanted Services and delete the listener's other ones. `services` are those of read_services.

    A Service whose change is refused counts as it is. A refused deletion is in the result, and nothing waits for it.
    Raises KubeError for a refusal that concerns all Services."""
    there, passing = services_of(listener, services).seen, Refusals()
    seen, taken, refusal = {}, "", ""
    for child in wanted:
        try:
            found = await kube.apply(child)
        except NameTakenError as error:
            taken = taken or str(error)
            continue
        except KubeError as error:
            if error.retriable:
                passing.keep(error)
            else:
                refusal = refusal or str(error)
            if (name := child["metadata"]["name"]) in there:
                seen[name] = there[name]
            continue
        seen[child["metadata"]["name"]] = service_seen(found, listener.spec.port)
    kept = {child["metadata"]["name"] for child in wanted}
    obsolete = [one for one in services if one["metadata"]["name"] not in kept and _is_own(listener, one)]
    left_over = await _delete(kube, listener, obsolete)
    return ListenerServices(seen, taken, refusal, passing.first, left_over)


async def _delete(kube: KubeClient, listener: BrokerListener, services: Sequence[Json]) -> KubeError | None:
    """Delete these Services. Return the first refusal. Raises KubeError if the API server does not answer."""
    refused: KubeError | None = None
    for meta in (service["metadata"] for service in services):
        if meta.get("deletionTimestamp"):
            continue
        # A user may have taken it over since it was read.
        seen = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
        try:
            await kube.delete(SERVICE, listener.namespace, meta["name"], **seen)
        except KubeError as error:
            if error.status is None:
                raise
            refused = refused or error
    return refused
