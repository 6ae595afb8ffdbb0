"""A retriable refusal that lasts, as of a webhook that is down, is in the status of the objects that wait for it."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S, LastingRefusals
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError, NamespaceGoingError
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener, observer, topic
from tests.support.manifests.pipeline_manifests import pipeline

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
SENTENCE = 'failed calling webhook "x": connection refused'
CLUSTER = cluster(audit={"landing": {"claimName": "audit"}})


class _Refusing(MemoryKube):
    """Refuses for now to create or change anything but statuses."""

    refuses_now = True

    async def apply(self, *arguments: Any, **options: Any) -> Json:
        self._refuse()
        return await super().apply(*arguments, **options)

    async def patch_metadata(self, *arguments: Any, **options: Any) -> None:
        self._refuse()
        await super().patch_metadata(*arguments, **options)

    def _refuse(self) -> None:
        if self.refuses_now:
            raise KubeError(SENTENCE, 500, retriable=True)


@pytest.mark.parametrize(
    ("queue", "document", "raises"),
    [
        (Queue.CLUSTERS, CLUSTER, True),
        (Queue.LISTENERS, listener() | {"metadata": {"name": "shop-external"}}, True),
        (Queue.PIPELINES, pipeline(), False),
        (Queue.TOPICS, topic(deletionPolicy="Delete"), False),
    ],
)
async def test_a_lasting_refusal_is_reported_after_a_minute_and_retried(
    queue: Queue, document: Json, raises: bool
) -> None:
    kube = _Refusing(CLUSTER, document)
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconcile = reconcilers(context, settings)[queue]
    kind, name = document["kind"], document["metadata"]["name"]
    for wait_s in (0.0, TOLD_AFTER_S - 1):
        await asyncio.sleep(wait_s)
        with pytest.raises(KubeError, match="failed calling webhook"):
            await reconcile(SHOP)
        assert kube.take(kind, name).get("status") is None, "it may pass"
    await asyncio.sleep(1)
    if raises:
        with pytest.raises(KubeError, match="failed calling webhook"):
            await reconcile(SHOP)
    else:
        await reconcile(SHOP)
    said = {type_: kube.condition(kind, name, type_) for type_ in ("Reconciling", "Stalled")}
    assert {type_: (one["status"], one["reason"]) for type_, one in said.items()} == {
        "Reconciling": ("True", "NotApplied"),
        "Stalled": ("False", "NotApplied"),
    }
    assert SENTENCE in said["Reconciling"]["message"]
    kube.refuses_now = False
    await reconcile(SHOP)
    assert kube.condition(kind, name)["reason"] != "NotApplied"
    await context.aclose()


async def test_observers_without_code_of_their_own_do_not_wait_for_the_code_of_others() -> None:
    code = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "code"},
        "data": {"orders.py": "class A: ..."},
    }
    coded = observer("coded", **{"class": "orders.A", "source": {"configMap": {"name": "code"}}})
    shop = cluster(observers={"allowConfigMapCode": True})
    kube = _Refusing(shop, code, coded, observer("builtin", builtIn="audit-log"))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconcile = reconcilers(context, context.settings)[Queue.OBSERVERS]
    with pytest.raises(KubeError, match="failed calling webhook"):
        await reconcile(SHOP)
    await asyncio.sleep(TOLD_AFTER_S)
    await reconcile(SHOP)
    assert SENTENCE in kube.condition("ObserverPlugin", "coded", "Stalled")["message"]
    assert kube.condition("ObserverPlugin", "builtin", "Stalled")["status"] == "False"
    await context.aclose()


async def test_errors_that_cannot_be_reported_or_end_by_themselves_are_not_counted() -> None:
    refusals, refused = LastingRefusals(), KubeError(SENTENCE, 500, retriable=True)
    for error in (KubeUnavailableError("no answer"), NamespaceGoingError("it is being deleted")):
        assert not refusals.lasts("u", error)
    await asyncio.sleep(TOLD_AFTER_S)
    assert not refusals.lasts("u", refused)
    await asyncio.sleep(TOLD_AFTER_S)
    assert refusals.lasts("u", refused)
    assert not refusals.lasts("another", refused)
    refusals.ended("u")
    assert not refusals.lasts("u", refused), "it was made meanwhile"
