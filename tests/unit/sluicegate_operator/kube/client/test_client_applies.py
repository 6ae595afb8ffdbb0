"""The requests of KubeClient.apply: a table of objects replaces the API server, and a dictionary the cache."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.cache.informer import Informer
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import STATEFUL_SET, Kind
from sluicegate_operator.resources.labels import labels

Json = dict[str, Any]
PATH = STATEFUL_SET.path("default", "shop-broker")


class Server:
    """An API server with one StatefulSet. `asked` are the requests, `refuses` is the status of a create's answer."""

    def __init__(self) -> None:
        self.found: Json | None = None
        self.asked: list[str] = []
        self.refuses: int | None = None
        self._version = 0

    def change(self, *, generations: int = 0, **fields: Any) -> None:
        assert self.found is not None, "it was made before"
        self._version += 1
        meta = {**self.found["metadata"], "resourceVersion": str(self._version)}
        meta["generation"] += generations
        self.found = {**self.found, "metadata": {**meta, **fields.pop("metadata", {})}, **fields}

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, **_: Any
    ) -> Json:
        tried = "dryRun" in (query or {})
        self.asked.append(f"{method} tried" if tried else method)
        if method == "GET":
            if self.found is None:
                raise KubeError("not found", 404)
        elif method == "POST":
            if self.refuses is not None:
                raise KubeError("quota exceeded", self.refuses)
            if self.found is not None:
                raise KubeConflictError("already exists")
            made = deepcopy(body)
            made["metadata"] |= {"uid": "uid", "generation": 1, "resourceVersion": "1"}
            if tried:
                return dict(made)
            self.found, self._version = made, 1
        elif not tried and "spec" in body:
            self.change(generations=1, spec=body["spec"])
        assert self.found is not None
        return deepcopy(self.found)


class Cached:
    """Knows the server's object, unless it is `hidden` for lack of the label."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.known = True
        self.hidden = False

    def peek(self, *_: object) -> tuple[bool, Json | None]:
        return self.known, deepcopy(self._server.found) if self.known and not self.hidden else None

    def informers(self) -> Mapping[Kind, Informer]:
        seen = Informer(Watched(STATEFUL_SET, 30))
        if (found := self.peek()[1]) is not None:
            seen.store.put(CachedObject("default", "shop-broker", found["metadata"]["uid"], 1, "shop", found))
        return {STATEFUL_SET: seen}

    def note(self, kind: Kind, answer: Mapping[str, Any]) -> None:
        assert kind is STATEFUL_SET
        assert answer["metadata"]["uid"]

    def close(self) -> None:
        """Do nothing: nothing runs."""


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeClient]:
    named = {"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    config = {
        "clusters": [named],
        "contexts": [context],
        "users": [{"name": "test", "user": {}}],
        "current-context": "test",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    client = KubeClient(str(tmp_path / "config"))
    monkeypatch.setattr(client, "_request", server.request)
    monkeypatch.setattr(client, "cache", Cached(server))
    yield client
    client.close()


def node_set(replicas: int = 3) -> Json:
    meta = {"name": "shop-broker", "namespace": "default", "labels": labels("shop")}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": {"replicas": replicas}}


async def test_an_object_missing_from_the_cache_is_created_without_a_read(client: KubeClient, server: Server) -> None:
    await client.try_out(node_set())
    await client.apply(node_set())
    assert server.asked == ["POST tried", "POST"]


async def test_without_a_cache_that_knows_it_is_asked_for(client: KubeClient, server: Server) -> None:
    client.cache.known = False  # type: ignore[attr-defined]
    await client.try_out(node_set())
    await client.apply(node_set())
    assert server.asked == ["GET", "POST tried", "GET", "POST"]


async def test_a_status_change_causes_no_new_apply(client: KubeClient, server: Server) -> None:
    await client.apply(node_set())
    del server.asked[:]
    for ready in range(3):
        server.change(status={"readyReplicas": ready})
        await client.apply(node_set())
    assert server.asked == []


@pytest.mark.parametrize(
    "changed", [{"spec": {"replicas": 5}}, {"metadata": {"labels": {**labels("shop"), "by": "hand"}}}]
)
async def test_an_object_changed_by_another_client_is_applied_again(
    client: KubeClient, server: Server, changed: Mapping[str, Any]
) -> None:
    await client.apply(node_set())
    del server.asked[:]
    server.change(generations="spec" in changed, **changed)
    await client.apply(node_set())
    assert server.asked == ["GET", "PATCH"]
    assert server.found is not None
    assert server.found["spec"] == {"replicas": 3}


async def test_ours_that_has_lost_its_label_is_found_by_name(client: KubeClient, server: Server) -> None:
    await client.apply(node_set())
    client.cache.hidden = True  # type: ignore[attr-defined]
    server.change(metadata={"labels": {}, "ownerReferences": []})
    with pytest.raises(NameTakenError):
        await client.apply(node_set())
    assert server.asked == ["POST", "POST", "GET"]
    # An exhausted quota does not show whether the object exists.
    server.change(metadata={"labels": labels("shop")})
    server.refuses = 403
    del server.asked[:]
    await client.apply(node_set(4))
    assert server.asked == ["POST", "GET", "PATCH"]


async def test_the_reference_to_an_earlier_owner_of_the_name_is_removed_first(
    client: KubeClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that restores a backup has set the reference, and the API server refuses a second controller."""
    owner = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerCluster", "name": "shop", "controller": True}
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "name": "plain", "uid": "plain"}
    wanted = node_set()
    await client.apply(wanted)
    server.change(metadata={"ownerReferences": [plain, owner | {"uid": "earlier"}]})
    wanted["metadata"]["ownerReferences"] = [owner | {"uid": "now"}]
    bodies: list[Any] = []

    async def request(method: str, path: str, **more: Any) -> Json:
        bodies.append(more.get("body"))
        return await server.request(method, path, **more)

    monkeypatch.setattr(client, "_request", request)
    await client.apply(wanted)
    _, first, second = bodies
    assert first == {"metadata": {"uid": "uid", "resourceVersion": "2", "ownerReferences": [plain]}}
    assert second["metadata"]["ownerReferences"] == [owner | {"uid": "now"}]


async def test_a_refused_creation_raises_the_api_servers_error(client: KubeClient, server: Server) -> None:
    server.refuses = 422
    with pytest.raises(KubeError, match="quota exceeded"):
        await client.apply(node_set())
    assert server.asked == ["POST", "GET", "POST"]


@pytest.mark.parametrize(("known", "sent"), [(True, []), (False, ["PATCH"])], ids=["by the cache", "by the answer"])
async def test_a_status_of_an_earlier_object_of_the_name_is_a_conflict(
    client: KubeClient, server: Server, known: bool, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.apply(node_set())
    del server.asked[:]
    monkeypatch.setattr(client.cache, "known", known)
    with pytest.raises(KubeConflictError, match="shop-broker has been replaced by another object"):
        await client.apply_status(STATEFUL_SET, "default", "shop-broker", {}, uid="of-an-earlier-one")
    assert server.asked == sent
    await client.apply_status(STATEFUL_SET, "default", "shop-broker", {}, uid="uid")
