"""Removes the finalizers of Topics when the operator is uninstalled, so that no object waits for it.

Topics on the brokers stay. An operator that is installed again adds the finalizers again, see leaving_topics.
"""

import logging

from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.api_server import Json
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import TOPIC

log = logging.getLogger(__name__)


async def release_topics(kube: KubeClient, namespace: str | None) -> int:
    """Remove the finalizer from all Topics of a namespace, None meaning all. Returns how many had it.

    The caller must hold the Lease: another leading operator would add the finalizers again. Raises KubeError after the
    other Topics are released.
    """
    held = [topic for topic in await _topics(kube, namespace) if FINALIZER in _finalizers(topic)]
    failures: list[KubeError] = []
    for topic in held:
        try:
            await _release(kube, topic)
        except KubeError as error:
            log.error("the finalizer of Topic %s/%s was not removed: %s", *_place(topic), error)
            failures.append(error)
    if failures:
        raise failures[0]
    return len(held)


async def _topics(kube: KubeClient, namespace: str | None) -> list[Json]:
    """Return the Topics; none if the CRD was deleted first, which deletes all of them."""
    try:
        return await kube.list(TOPIC, namespace)
    except KubeError as error:
        if error.status == 404:
            return []
        raise


async def _release(kube: KubeClient, topic: Json) -> None:
    """Remove the finalizer. If another client writes the object meanwhile, read it and try again."""
    namespace, name = _place(topic)
    found: Json | None = topic
    while found is not None and FINALIZER in _finalizers(found):
        meta = found["metadata"]
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        fields = {"finalizers": [one for one in _finalizers(found) if one != FINALIZER]}
        try:
            await kube.patch_metadata(TOPIC, namespace, name, fields, seen)
        except KubeConflictError:
            found = await kube.get(TOPIC, namespace, name)
        except KubeError as error:
            if error.status != 404:
                raise
            return
        else:
            log.info("removed the finalizer of Topic %s/%s", namespace, name)
            return


def _place(topic: Json) -> tuple[str, str]:
    return topic["metadata"]["namespace"], topic["metadata"]["name"]


def _finalizers(topic: Json) -> list[str]:
    return topic["metadata"].get("finalizers") or []
