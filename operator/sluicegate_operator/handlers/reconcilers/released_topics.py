"""Removes the finalizers of Topics and KafkaUsers when the operator is uninstalled, so that no object waits for it.

What brokers have of them stays. An operator that is installed again adds the finalizers again, see leaving_topics.
"""

import logging

from sluicegate_operator.api.models.kafka_user import FINALIZER as USER_FINALIZER
from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.api_server import Json
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import KAFKA_USER, TOPIC, Kind

log = logging.getLogger(__name__)

_FINALIZERS = ((TOPIC, FINALIZER), (KAFKA_USER, USER_FINALIZER))


async def release_topics(kube: KubeClient, namespace: str | None) -> int:
    """Remove the operator's finalizers from all Topics and KafkaUsers of a namespace, or of all (None).

    Returns how many objects had one. The caller must hold the Lease: another leading operator would add the finalizers
    again. Raises KubeError after the other objects are released.
    """
    held = [
        (kind, finalizer, found)
        for kind, finalizer in _FINALIZERS
        for found in await _objects(kube, kind, namespace)
        if finalizer in _finalizers(found)
    ]
    failures: list[KubeError] = []
    for kind, finalizer, found in held:
        try:
            await _release(kube, kind, finalizer, found)
        except KubeError as error:
            log.error("the finalizer of %s %s/%s was not removed: %s", kind.kind, *_place(found), error)
            failures.append(error)
    if failures:
        raise failures[0]
    return len(held)


async def _objects(kube: KubeClient, kind: Kind, namespace: str | None) -> list[Json]:
    """Return the objects; none if the CRD was deleted first, which deletes all of them."""
    try:
        return await kube.list(kind, namespace)
    except KubeError as error:
        if error.status == 404:
            return []
        raise


async def _release(kube: KubeClient, kind: Kind, finalizer: str, one: Json) -> None:
    """Remove the finalizer. If another client writes the object meanwhile, read it and try again."""
    namespace, name = _place(one)
    found: Json | None = one
    while found is not None and finalizer in _finalizers(found):
        meta = found["metadata"]
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        fields = {"finalizers": [other for other in _finalizers(found) if other != finalizer]}
        try:
            await kube.patch_metadata(kind, namespace, name, fields, seen)
        except KubeConflictError:
            found = await kube.get(kind, namespace, name)
        except KubeError as error:
            if error.status != 404:
                raise
            return
        else:
            log.info("removed the finalizer of %s %s/%s", kind.kind, namespace, name)
            return


def _place(found: Json) -> tuple[str, str]:
    return found["metadata"]["namespace"], found["metadata"]["name"]


def _finalizers(found: Json) -> list[str]:
    return found["metadata"].get("finalizers") or []
