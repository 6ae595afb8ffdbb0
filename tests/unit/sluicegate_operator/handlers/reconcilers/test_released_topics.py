"""Topics are released for an operator that does not return."""

import pytest

from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.handlers.reconcilers.released_topics import release_topics
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import topic

OTHER = "example.org/other"


def held(name: str, *finalizers: str, namespace: str = "default") -> Json:
    document = topic(name)
    return document | {"metadata": {"name": name, "namespace": namespace, "finalizers": [FINALIZER, *finalizers]}}


async def test_topics_being_deleted_are_released_and_finalizers_of_others_stay() -> None:
    kube = MemoryKube(held("orders"), held("shared", OTHER), held("far", namespace="retail"), topic("free"))
    for name in ("orders", "shared"):
        kube.delete_as_a_person("Topic", name)
    assert await release_topics(kube, "default") == 2  # type: ignore[arg-type]
    assert kube.names("Topic") == ["far", "free", "shared"]
    assert kube.take("Topic", "shared")["metadata"]["finalizers"] == [OTHER]
    assert await release_topics(kube, None) == 1  # type: ignore[arg-type]
    assert kube.take("Topic", "far", "retail")["metadata"]["finalizers"] == []
    assert await release_topics(kube, None) == 0  # type: ignore[arg-type]


async def test_a_topic_changed_meanwhile_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(held("orders"))
    patch = kube.patch_metadata
    refused: list[Json] = []

    async def changed_first(*arguments: object) -> None:
        if not refused:
            refused.append(kube.put(held("orders", OTHER)))
            raise KubeConflictError("the object has been modified")
        await patch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kube, "patch_metadata", changed_first)
    assert await release_topics(kube, None) == 1  # type: ignore[arg-type]
    assert kube.take("Topic", "orders")["metadata"]["finalizers"] == [OTHER]


async def test_a_refused_topic_is_reported_and_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kube = MemoryKube(held("a"), held("b"), held("c"))
    patch = kube.patch_metadata

    async def refuse_a(kind: object, namespace: str, name: str, *rest: object) -> None:
        if name == "a":
            raise KubeError("topics a is forbidden", 403)
        if name == "b":
            kube.remove("Topic", "b")
            raise KubeError("topics b not found", 404)
        await patch(kind, namespace, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(kube, "patch_metadata", refuse_a)
    with pytest.raises(KubeError, match="topics a is forbidden"):
        await release_topics(kube, None)  # type: ignore[arg-type]
    assert kube.take("Topic", "c")["metadata"]["finalizers"] == []
    assert "the finalizer of Topic default/a was not removed" in caplog.text


async def test_a_deleted_crd_leaves_no_topics_to_release(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = KubeError("the server could not find the requested resource", 404)
    refusals = [missing, missing, KubeError("forbidden", 403)]

    async def refuse(*_: object) -> list[Json]:
        raise refusals.pop(0)

    kube = MemoryKube()
    monkeypatch.setattr(kube, "list", refuse)
    assert await release_topics(kube, None) == 0  # type: ignore[arg-type]
    with pytest.raises(KubeError, match="forbidden"):
        await release_topics(kube, None)  # type: ignore[arg-type]
