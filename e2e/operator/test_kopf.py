"""Behaviour of kopf that Sluicegate relies on, with a real API server: its lists and watches, and the cache on them.

kopf runs in the test, for a cache of ConfigMaps and Topics. A proxy, or the API server itself, causes the faults.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.world.engine_world import of_cluster
from e2e.world.shop import CRDS, install_crds
from sluicegate_operator.handlers.kopf_operator import KopfOperator
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, TOPIC, Kind
from sluicegate_operator.kube.http.transport import AiohttpTransport, Response, Transport
from tests.support.fakes.kube.scripted_api import ScriptedResponse
from tests.support.processes.proxies.api_proxy import ApiProxy

PERIOD_S = 2
LABEL = "sluicegate.dev/test"
MAPS = Watched(CONFIG_MAP, PERIOD_S, LABEL, metadata_only=True)
TOPICS = Watched(TOPIC, PERIOD_S)
DEADLINE_S = 90.0
NAMESPACE = "default"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        install_crds(plane)
        yield plane


class Meddling:
    """Answers some requests itself, as an API server that refuses them."""

    def __init__(self, real: Transport, refused: dict[str, int]) -> None:
        """`refused`: HTTP statuses by a part of the path; the test changes it."""
        self._real = real
        self._refused = refused

    async def get(self, path: str, accept: str, timeout_s: float) -> Response:
        for part, status in self._refused.items():
            if part in path:
                return ScriptedResponse(status, json.dumps({"message": f"{part} is refused"}).encode())
        return await self._real.get(path, accept, timeout_s)

    async def close(self) -> None:
        await self._real.close()


class Watching:
    """A cache that kopf feeds through a proxy."""

    def __init__(self, plane: ControlPlane, proxy: ApiProxy, cache: Cache, refused: dict[str, int]) -> None:
        self.plane = plane
        self.proxy = proxy
        self.cache = cache
        self.refused = refused
        self.told: list[tuple[str, str]] = []
        """Objects that were created or changed ("there") or deleted ("gone"), with their names."""

    def on_change(self, kind: Kind, before: Any, after: Any) -> None:
        self.told.append(("gone", before.name) if after is None else ("there", after.name))

    async def do(self, work: Callable[..., object], *arguments: object) -> None:
        """Run blocking work in a thread, while kopf runs."""
        await asyncio.to_thread(work, *arguments)

    async def kubectl(self, *arguments: str) -> None:
        await self.do(partial(self.plane.kubectl, *arguments))

    async def make_map(self, name: str) -> None:
        await self.kubectl("create", "configmap", name, "--from-literal=long=text")
        await self.kubectl("label", "configmap", name, f"{LABEL}=yes")

    async def make_topic(self, name: str) -> None:
        manifest = json.dumps(of_cluster("Topic", name, partitions=1, replicas=1))
        await self.do(partial(self.plane.kubectl, "apply", "-f", "-", input=manifest))

    def names(self, kind: Kind) -> set[str]:
        return {name for _, name in self.cache.informers()[kind].store.names()}

    def is_known(self, kind: Kind) -> bool:
        return self.cache.peek(kind, NAMESPACE, "any")[0] if kind == CONFIG_MAP else self.why_unknown(kind) is None

    def why_unknown(self, kind: Kind) -> KubeError | None:
        return self.cache.informers()[kind].why_unknown(asyncio.get_running_loop().time())

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():  # noqa: ASYNC110 - another process makes it so
                await asyncio.sleep(0.02)

    def asked(self, plural: str) -> list[Mapping[str, list[str]]]:
        return [parse_qs(request.query) for request in self.proxy.requests if request.path.endswith(f"/{plural}")]


@pytest.fixture
async def watching(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Watching]:
    async with fed(plane, tmp_path) as found:
        yield found


@asynccontextmanager
async def fed(plane: ControlPlane, folder: Path) -> AsyncIterator[Watching]:
    await asyncio.to_thread(plane.kubectl, "delete", "configmaps", "-l", LABEL)
    await asyncio.to_thread(plane.kubectl, "delete", "topics", "--all")
    cache, refused = Cache([MAPS, TOPICS]), dict[str, int]()
    async with ApiProxy(plane.url, plane.certificate) as proxy:
        kube = KubeClient(str(proxy.kubeconfig(plane.kubeconfig, folder / "kubeconfig")))
        kopf = KopfOperator(lambda: Meddling(AiohttpTransport(kube.server), refused), None, lambda: None, cache)
        found = Watching(plane, proxy, cache, refused)
        await found.make_map("before")
        await cache.subscribe(found.on_change)
        kopf.start()
        try:
            await found.until(lambda: found.is_known(CONFIG_MAP) and found.is_known(TOPIC))
            yield found
        finally:
            kopf.stop()
            await kopf.stopped()
            kube.close()


async def test_kopf_lists_in_pages_watches_from_the_list_and_only_reads(watching: Watching) -> None:
    assert watching.names(CONFIG_MAP) == {"before"}
    document = await watching.cache.get(CONFIG_MAP, NAMESPACE, "before")
    assert document is not None
    assert "data" not in document, "metadata alone were sent"
    await watching.make_map("later")
    await watching.make_topic("orders")
    await watching.until(lambda: "later" in watching.names(CONFIG_MAP) and "orders" in watching.names(TOPIC))
    listed, watched, *_ = watching.asked("configmaps")
    assert (listed["limit"], listed["labelSelector"]) == (["200"], [LABEL])
    assert "resourceVersion" not in listed, "the newest, not what an API server remembers"
    assert watched["watch"] == ["true"]
    assert watched["timeoutSeconds"] == [str(PERIOD_S)]
    assert "sendInitialEvents" not in watched
    assert {request.method for request in watching.proxy.requests} == {"GET"}
    assert {request.path.rpartition("/")[2] for request in watching.proxy.requests} == {"configmaps", "topics"}
    topic = watching.plane.get("topic", "orders")
    assert "finalizers" not in topic["metadata"]
    assert not any("kopf" in key for key in topic["metadata"].get("annotations") or ())


async def test_a_watch_that_ends_goes_on_from_its_last_version_without_a_list(watching: Watching) -> None:
    await watching.until(lambda: len([one for one in watching.asked("topics") if "watch" in one]) > 2)
    await watching.make_topic("orders")
    await watching.until(lambda: "orders" in watching.names(TOPIC))
    assert watching.cache.informers()[TOPIC].lists == 1


async def test_an_object_deleted_during_a_watch_gap_is_reported_after_410(watching: Watching) -> None:
    for name in ("one", "two", "three"):
        await watching.make_map(name)
    await watching.until(lambda: watching.names(CONFIG_MAP) == {"before", "one", "two", "three"})
    watching.proxy.cut = True
    watching.proxy.hang_up()
    await watching.kubectl("delete", "configmap", "one", "two")
    await watching.do(watching.plane.pause_api_server)
    try:
        await watching.do(watching.plane.forget_the_past)
    finally:
        await watching.do(watching.plane.resume_api_server)
    watching.told.clear()
    watching.proxy.cut = False
    await watching.until(lambda: watching.names(CONFIG_MAP) == {"before", "three"})
    assert sorted(watching.told) == [("gone", "one"), ("gone", "two")], "and nothing that had not changed"
    assert watching.is_known(CONFIG_MAP)


async def test_410_in_place_of_a_watch_lists_again(watching: Watching) -> None:
    watching.refused["watch=true"] = 410
    watching.proxy.hang_up()
    await watching.until(lambda: all(one.lists > 2 for one in watching.cache.informers().values()))
    assert watching.cache.errors() == {}
    watching.refused.clear()
    await watching.make_map("later")
    await watching.until(lambda: "later" in watching.names(CONFIG_MAP))


@pytest.mark.parametrize("status", [403, 429, 503])
async def test_a_kind_that_is_refused_is_the_error_of_that_kind_alone(watching: Watching, status: int) -> None:
    watching.refused["/topics"] = status
    watching.proxy.hang_up()
    await watching.until(lambda: TOPIC in watching.cache.errors())
    assert watching.cache.errors()[TOPIC].status == status
    await watching.make_map(f"during-{status}")
    await watching.until(lambda: f"during-{status}" in watching.names(CONFIG_MAP))
    await watching.make_topic(f"during-{status}")
    watching.refused.clear()
    await watching.until(lambda: not watching.cache.errors() and f"during-{status}" in watching.names(TOPIC))


async def test_deleting_and_recreating_a_crd_affects_its_kind_only(watching: Watching) -> None:
    await watching.make_topic("lost")
    await watching.until(lambda: "lost" in watching.names(TOPIC))
    await watching.kubectl("delete", "crd", "topics.sluicegate.dev")
    await watching.until(lambda: not watching.is_known(TOPIC))
    assert watching.is_known(CONFIG_MAP)
    await watching.kubectl("apply", "--server-side", "-f", str(CRDS))
    await watching.until(lambda: watching.is_known(TOPIC))
    assert watching.names(TOPIC) == set()
    await watching.do(install_crds, watching.plane)
    await watching.make_topic("found")
    await watching.until(lambda: "found" in watching.names(TOPIC))
    assert watching.cache.informers()[CONFIG_MAP].lists == 1


async def test_a_frozen_api_server_is_noticed_and_what_it_has_missed_is_known(watching: Watching) -> None:
    with watching.plane.frozen_api_server():
        await watching.until(lambda: not watching.is_known(CONFIG_MAP))
    await watching.make_map("later")
    await watching.until(lambda: watching.is_known(CONFIG_MAP) and "later" in watching.names(CONFIG_MAP))


async def test_an_api_server_whose_storage_was_restored_is_believed(watching: Watching, tmp_path: Path) -> None:
    await watching.do(watching.plane.keep_storage, tmp_path / "storage")
    for number in range(5):
        await watching.make_map(f"lost-{number}")
    await watching.until(lambda: "lost-4" in watching.names(CONFIG_MAP))
    await watching.do(watching.plane.restore_storage, tmp_path / "storage")
    await watching.until(lambda: watching.names(CONFIG_MAP) == {"before"})
    await watching.make_map("later")
    await watching.until(lambda: "later" in watching.names(CONFIG_MAP))
