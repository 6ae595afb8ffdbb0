"""A status that the API server refuses does not block other objects of its cluster."""

import logging
from typing import Any

import pytest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener, observer, topic
from tests.support.manifests.pipeline_manifests import pipeline

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")


class _Refusing(MemoryKube):
    """Refuses the status of the object `a` with `error`."""

    error = KubeError("422 denied by a policy", 422)

    async def apply_status(self, kind: Kind, namespace: str, name: str, *more: Any, **options: Any) -> Any:
        if name == "a":
            raise self.error
        return await super().apply_status(kind, namespace, name, *more, **options)


@pytest.mark.parametrize("paused", [None, True], ids=["without a cluster", "paused"])
@pytest.mark.parametrize(
    ("queue", "document"),
    [
        (Queue.TOPICS, topic()),
        (Queue.OBSERVERS, observer()),
        (Queue.PIPELINES, pipeline()),
        (Queue.LISTENERS, listener()),
    ],
)
async def test_one_refused_status_keeps_no_other_object_waiting(
    queue: Queue, document: Json, paused: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    of_cluster = [cluster(paused=True)] if paused else []
    kube = _Refusing(*of_cluster, *(document | {"metadata": {"name": name}} for name in ("a", "b")))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconcile = reconcilers(context, context.settings)[queue]
    for _ in range(2):
        await reconcile(SHOP)
    assert kube.condition(document["kind"], "b") != {}
    refusals = [one.getMessage() for one in caplog.records if "refused the status" in one.getMessage()]
    assert refusals == [f"the API server refused the status of {document['kind']} a: 422 denied by a policy"]
    assert [event["involvedObject"]["name"] for event in kube.objects.values() if event["kind"] == "Event"] in (
        [],
        ["b"],
    )
    await context.aclose()


async def test_a_refusal_that_may_pass_is_tried_again() -> None:
    kube = _Refusing(topic() | {"metadata": {"name": "a"}})
    kube.error = KubeError("500 failed calling webhook", 500, retriable=True)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    with pytest.raises(KubeError, match="failed calling webhook"):
        await reconcilers(context, context.settings)[Queue.TOPICS](SHOP)
    await context.aclose()
