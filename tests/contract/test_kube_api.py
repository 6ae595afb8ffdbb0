"""kube/ against a real API server, with the rights that deploy/rbac.yaml gives to the operator."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.control_plane import ControlPlane, KubectlError
from e2e.cluster.waiting import wait_for
from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.fleet.pods.controller_lease import end_term_of_gone
from sluicegate_operator.kube.client.children import CHILD_MANAGER, who_set
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.events import EventRecorder
from sluicegate_operator.kube.http.errors import (
    KubeConflictError,
    KubeError,
    KubeUnavailableError,
    NamespaceGoingError,
    NameTakenError,
)
from sluicegate_operator.kube.http.kinds import LEASE, POD, STATEFUL_SET, TOPIC, USER_KINDS, kind_of
from sluicegate_operator.kube.lease.lease import LeaseElector
from sluicegate_operator.planning.layout.cluster_layout import journal_name
from sluicegate_operator.planning.registrations.controller_lease import JOURNAL_LABEL
from sluicegate_operator.resources.labels import CLUSTER_LABEL, labels
from tests.support.manifests.bad_manifests import cluster

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
SYSTEM = "sluicegate-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:sluicegate-operator"
DURATION_S = 4
LABEL = "sluicegate.dev/test"
CHARACTERS = "\x01\x7f\x85\u2028\ufeff\uffff\U0001f600"
"""Characters that JSON escapes, and characters that must or must not be escaped in YAML, as the API server reads it."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.kubectl("apply", "-f", str(ROOT / "crds"))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        plane.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
        wait_for("the storage of the new kinds is there", lambda: _lists_all_kinds(plane), timeout_s=30)
        yield plane


def _lists_all_kinds(plane: ControlPlane) -> bool:
    """Whether every kind can be listed. Established comes before the storage is ready: until then the answer is 429."""
    try:
        for kind in USER_KINDS:
            plane.kubectl("get", "--raw", kind.path(None))
    except KubectlError:
        return False
    return True


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane) -> str:
    """A kubeconfig with the operator's own account."""
    token = plane.kubectl("create", "token", "sluicegate-operator", "-n", SYSTEM).strip()
    document = json.loads(plane.kubeconfig.read_text())
    document["users"] = [{"name": "admin", "user": {"token": token}}]
    path = plane.folder / "operator-kubeconfig"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def client(kubeconfig: str) -> Iterator[KubeClient]:
    client = KubeClient(kubeconfig)
    yield client
    client.close()


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    """A child like those of a cluster shop."""
    meta = {"name": name, "namespace": "default", "labels": labels("shop") | {LABEL: name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@pytest.fixture(scope="module")
def owners(plane: ControlPlane) -> dict[str, str]:
    """The uids of two BrokerClusters: an object whose owner does not exist is collected as garbage."""
    uids = {}
    for name in ("shop", "other"):
        cluster = {
            "apiVersion": TOPIC.api_version,
            "kind": "BrokerCluster",
            "metadata": {"name": name},
            "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}},
        }
        plane.kubectl("apply", "-f", "-", input=json.dumps(cluster))
        uids[name] = plane.get("brokercluster", name)["metadata"]["uid"]
    return uids


def owned(child: dict[str, Any], name: str, owners: dict[str, str]) -> dict[str, Any]:
    reference = {
        "apiVersion": TOPIC.api_version,
        "kind": "BrokerCluster",
        "name": name,
        "uid": owners[name],
        "controller": True,
    }
    return child | {"metadata": child["metadata"] | {"ownerReferences": [reference]}}


def elector(client: KubeClient, name: str, identity: str) -> LeaseElector:
    return LeaseElector(client, (SYSTEM, name), identity, duration_s=DURATION_S, renew_every_s=0.3)


async def test_what_is_tried_out_is_judged_and_not_written(client: KubeClient, plane: ControlPlane) -> None:
    await client.try_out(config_map("tried", {"a": "1"}))
    assert "tried" not in plane.kubectl("get", "configmaps", "-o", "name")
    with pytest.raises(KubeError, match="a valid config key"):
        await client.try_out(config_map("tried", {"not a key": "1"}))
    await client.apply(config_map("tried", {"a": "1"}))
    await client.try_out(config_map("tried", {"a": "2"}))
    assert json.loads(plane.kubectl("get", "configmap", "tried", "-o", "json"))["data"] == {"a": "1"}
    plane.kubectl("create", "configmap", "tried-by-another")
    with pytest.raises(KubeError, match="tried-by-another"):
        await client.try_out(config_map("tried-by-another", {}))


async def test_one_holds_and_the_next_gets_it_at_once_after_release(client: KubeClient) -> None:
    one, two = elector(client, "released", "one"), elector(client, "released", "two")
    await one.acquire()
    keeping = asyncio.create_task(one.run_while_held())
    waiting = asyncio.create_task(two.acquire())
    done, _ = await asyncio.wait({waiting}, timeout=DURATION_S * 1.5)
    assert not done
    assert one.held
    assert not one.lost.is_set()
    keeping.cancel()
    await one.release()
    await asyncio.wait_for(waiting, DURATION_S * 0.75)
    assert two.held
    found = await client.get(LEASE, SYSTEM, "released")
    assert found is not None
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("two", 1)


async def test_a_vanished_holder_is_succeeded_after_the_duration_and_learns_it(client: KubeClient) -> None:
    one, two = elector(client, "vanished", "one"), elector(client, "vanished", "two")
    loop = asyncio.get_running_loop()
    await one.acquire()
    started_s = loop.time()
    async with asyncio.timeout(DURATION_S * 5):
        await two.acquire()
        assert loop.time() - started_s >= DURATION_S
        assert not one.held
        await one.run_while_held()
    assert one.lost.is_set()
    assert two.held


async def test_a_holder_whose_lease_was_taken_loses_it_and_may_try_again(client: KubeClient) -> None:
    one = elector(client, "taken", "one")
    await one.acquire()
    found = await client.get(LEASE, SYSTEM, "taken")
    assert found is not None
    await client.replace(LEASE, SYSTEM, "taken", {**found, "spec": {**found["spec"], "holderIdentity": "thief"}})
    async with asyncio.timeout(DURATION_S * 5):
        await one.run_while_held()
        assert one.lost.is_set()
        await one.acquire()
    assert one.held


async def test_replace_with_an_old_resource_version_is_a_conflict(client: KubeClient) -> None:
    await elector(client, "swapped", "one").acquire()
    found = await client.get(LEASE, SYSTEM, "swapped")
    assert found is not None
    await elector(client, "swapped", "one").acquire()
    with pytest.raises(KubeConflictError):
        await client.replace(LEASE, SYSTEM, "swapped", found)


async def test_events_are_counted_in_the_first_one(plane: ControlPlane, client: KubeClient) -> None:
    involved = await client.apply(config_map("observed", {}))
    recorder = EventRecorder(client)
    for message in ("first", "second", "first"):
        await recorder.record(involved, "Normal", "LimitEnforced", message)
    events = plane.get("events", "--field-selector", "involvedObject.name=observed")["items"]
    assert sorted((event["message"], event["type"], event["count"]) for event in events) == [
        ("first", "Normal", 1),
        ("second", "Normal", 1),
    ]
    assert {event["source"]["component"] for event in events} == {"sluicegate-operator"}
    assert {event["involvedObject"]["uid"] for event in events} == {involved["metadata"]["uid"]}


async def test_a_repeat_counts_also_when_the_first_event_has_expired(plane: ControlPlane, client: KubeClient) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    involved = await client.apply(config_map("repeated", {}))
    recorder = EventRecorder(client, clock=lambda: now)
    selector = ("--field-selector", "involvedObject.name=repeated")
    counts = []
    for _ in range(3):
        await recorder.record(involved, "Warning", "BrokerAway", "again")
        counts += [event["count"] for event in plane.get("events", *selector)["items"]]
        now += timedelta(seconds=61)
    plane.kubectl("delete", "events", *selector)
    await recorder.record(involved, "Warning", "BrokerAway", "again")
    counts += [event["count"] for event in plane.get("events", *selector)["items"]]
    assert counts == [1, 2, 3, 4]


async def test_apply_changes_its_own_fields_only(plane: ControlPlane, client: KubeClient) -> None:
    await client.apply(config_map("applied", {"ours": "1", "dropped": "1"}))
    plane.kubectl("patch", "configmap", "applied", "--patch", '{"data": {"ours": "by hand", "theirs": "1"}}')
    applied = await client.apply(config_map("applied", {"ours": "2"}))
    assert applied["data"] == {"ours": "2", "theirs": "1"}


async def test_fields_of_a_created_child_are_removed_when_they_are_no_longer_wanted(
    client: KubeClient, owners: dict[str, str]
) -> None:
    for wanted in ({"first": "1", "second": "1"}, {"second": "2"}, {}):
        applied = await client.apply(owned(config_map("shrinking", wanted), "shop", owners))
        assert applied.get("data", {}) == wanted
    managers = [(entry["manager"], entry["operation"]) for entry in applied["metadata"]["managedFields"]]
    assert managers == [(CHILD_MANAGER, "Apply")]


@pytest.mark.parametrize(
    ("marks", "owner", "why"),
    [
        ({}, "", "it has no controller and lacks the operator's labels"),
        ({"sluicegate.dev/cluster": "shop"}, "", "it has no controller and lacks the operator's labels"),
        (labels("shop2"), "", "it has no controller, and its label sluicegate.dev/cluster names cluster shop2"),
        (labels("shop"), "other", "BrokerCluster other with the uid .* controls it"),
    ],
)
async def test_an_object_of_another_owner_is_unchanged_and_reported(
    plane: ControlPlane, client: KubeClient, owners: dict[str, str], marks: dict[str, str], owner: str, why: str
) -> None:
    meta = {"name": "theirs", "namespace": "default", "labels": marks}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}
    plane.kubectl("create", "-f", "-", input=json.dumps(owned(theirs, owner, owners) if owner else theirs))
    before = plane.get("configmap", "theirs")
    try:
        with pytest.raises(
            NameTakenError, match=f"a ConfigMap theirs that does not belong to .*{why}.* create the BrokerCluster"
        ) as said:
            await client.apply(owned(config_map("theirs", {"b": "2"}), "shop", owners))
        assert not said.value.retriable
        assert plane.get("configmap", "theirs") == before
    finally:
        plane.kubectl("delete", "configmap", "theirs")


async def test_an_object_with_our_labels_and_no_controller_is_adopted(
    plane: ControlPlane, client: KubeClient, owners: dict[str, str]
) -> None:
    plane.kubectl("create", "configmap", "orphan", "--from-literal=kept=1")
    plane.kubectl("label", "configmap", "orphan", *(f"{key}={value}" for key, value in labels("shop").items()))
    taken = await client.apply(owned(config_map("orphan", {"ours": "1"}), "shop", owners))
    assert taken["data"] == {"kept": "1", "ours": "1"}
    assert [owner["uid"] for owner in taken["metadata"]["ownerReferences"]] == [owners["shop"]]


async def test_nothing_is_applied_to_what_took_a_childs_place_meanwhile(
    plane: ControlPlane, client: KubeClient, owners: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = owned(config_map("replaced", {"ours": "1"}), "shop", owners)
    await client.apply(child)
    changed = child | {"data": {"ours": "2"}}
    await client.apply(changed)
    found = await client.get(kind_of(child), "default", "replaced")
    plane.kubectl("delete", "configmap", "replaced")
    with pytest.raises(KubeConflictError):
        await _apply_as_seen(client, child, found, monkeypatch)
    plane.kubectl("create", "configmap", "replaced", "--from-literal=theirs=1")
    with pytest.raises(KubeConflictError):
        await _apply_as_seen(client, child, found, monkeypatch)
    assert plane.get("configmap", "replaced")["data"] == {"theirs": "1"}


async def _apply_as_seen(
    client: KubeClient, child: dict[str, Any], found: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(*_: object) -> dict[str, Any] | None:
        return found

    with monkeypatch.context() as patched:
        patched.setattr(client, "get", get)
        await client.apply(child)


async def test_a_change_between_the_read_and_the_write_is_seen_before_it_is_reverted(
    plane: ControlPlane, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.apply(config_map("overruled", {"ours": "1"}))
    await client.apply(config_map("overruled", {"ours": "2"}))
    looks, get = count(), client.get

    async def changed_after_the_first_look(*what: Any) -> dict[str, Any] | None:
        found = await get(*what)
        if next(looks) == 0:
            plane.kubectl("patch", "configmap", "overruled", "--patch", '{"data": {"ours": "by hand"}}')
        return found

    monkeypatch.setattr(client, "get", changed_after_the_first_look)
    seen: list[dict[str, Any]] = []
    await client.apply(config_map("overruled", {"ours": "3"}), seen.append)
    assert [found["data"]["ours"] for found in seen] == ["2", "by hand"]
    assert who_set(seen[1], "data", "ours").startswith("kubectl")
    assert plane.get("configmap", "overruled")["data"] == {"ours": "3"}


async def test_a_namespace_that_is_being_deleted_is_no_right_that_is_missing(
    plane: ControlPlane, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    plane.kubectl("create", "namespace", "going")
    plane.kubectl("create", "-n", "going", "configmap", "keeps")
    keeps = '{"metadata": {"finalizers": ["sluicegate.dev/test"]}}'
    plane.kubectl("patch", "-n", "going", "configmap", "keeps", "--patch", keeps)
    plane.kubectl("delete", "namespace", "going", "--wait=false")
    child = config_map("late", {})
    child["metadata"]["namespace"] = "going"
    with pytest.raises(NamespaceGoingError) as going:
        await client.apply(child)
    assert going.value.retriable
    await EventRecorder(client).record(child, "Warning", "Late", "not posted, and no warning")
    assert [record.levelname for record in caplog.records if "Late" in record.getMessage()] in ([], ["INFO"])
    plane.kubectl(
        "patch",
        "-n",
        "going",
        "configmap",
        "keeps",
        "--type=merge",
        "--patch",
        keeps.replace('"sluicegate.dev/test"', ""),
    )


async def test_an_unchanged_object_is_not_written_again(
    plane: ControlPlane, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    send = client._request

    async def noted(method: str, path: str, **options: Any) -> dict[str, Any]:
        if method != "GET":
            written.append(method)
        return await send(method, path, **options)

    monkeypatch.setattr(client, "_request", noted)
    for wanted in ("1", "1", "2", "2"):
        await client.apply(config_map("unchanged", {"ours": wanted}))
    assert written == ["POST", "PATCH", "PATCH"], "a child that was created is handed over to apply, and then patched"
    # A change by hand is reverted, also a label that no applied manifest has.
    plane.kubectl("patch", "configmap", "unchanged", "--patch", '{"data": {"ours": "by hand"}}')
    applied = await client.apply(config_map("unchanged", {"ours": "2"}))
    assert applied["data"] == {"ours": "2"}
    del written[:]
    await client.apply(config_map("unchanged", {"ours": "2"}))
    assert written == []


async def test_lists_carry_kinds_and_heed_selectors(client: KubeClient) -> None:
    assert await client.list(TOPIC, None) == []
    assert await client.get(STATEFUL_SET, "default", "missing") is None


async def test_status_is_a_subresource(plane: ControlPlane, client: KubeClient) -> None:
    topic = {
        "apiVersion": TOPIC.api_version,
        "kind": TOPIC.kind,
        "metadata": {"name": "orders", "labels": {LABEL: "orders"}},
        "spec": {"clusterRef": {"name": "shop"}, "partitions": 1, "replicas": 1},
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(topic))
    await client.apply_status(TOPIC, "default", "orders", {"observedGeneration": 1, "topicId": CHARACTERS})
    found = await client.list(TOPIC, "default", f"{LABEL}=orders")
    assert [(item["kind"], item["status"]) for item in found] == [
        ("Topic", {"observedGeneration": 1, "topicId": CHARACTERS})
    ]
    assert await client.list(TOPIC, None, f"{LABEL}=none") == []
    plane.kubectl("delete", "topic", "orders")


async def test_finalizers_are_those_of_the_object_that_was_seen(plane: ControlPlane, client: KubeClient) -> None:
    topic = {
        "apiVersion": TOPIC.api_version,
        "kind": TOPIC.kind,
        "metadata": {"name": "held", "finalizers": ["example.org/other"]},
        "spec": {"clusterRef": {"name": "shop"}, "partitions": 1, "replicas": 1},
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(topic))
    first = seen_as(await held(client))
    await client.patch_metadata(TOPIC, "default", "held", {"finalizers": ["example.org/other", FINALIZER]}, first)
    plane.kubectl("delete", "topic", "held", "--wait=false")
    found = await held(client) or {}
    assert found["metadata"]["finalizers"] == ["example.org/other", FINALIZER]
    assert found["metadata"]["deletionTimestamp"]
    with pytest.raises(KubeConflictError):
        await client.patch_metadata(TOPIC, "default", "held", {"finalizers": []}, first)
    await client.patch_metadata(TOPIC, "default", "held", {"finalizers": []}, seen_as(found))
    assert await held(client) is None
    with pytest.raises(KubeError) as gone:
        await client.patch_metadata(TOPIC, "default", "held", {"finalizers": []}, seen_as(found))
    assert gone.value.status in (404, 409)


async def held(client: KubeClient) -> dict[str, Any] | None:
    """The Topic `held`, from a list: the operator may list Topics, and never asks for one by name."""
    return next((topic for topic in await client.list(TOPIC, "default") if topic["metadata"]["name"] == "held"), None)


def seen_as(found: dict[str, Any] | None) -> dict[str, str]:
    assert found is not None
    return {key: found["metadata"][key] for key in ("uid", "resourceVersion")}


async def test_the_operators_rights_end_where_its_work_ends(plane: ControlPlane, client: KubeClient) -> None:
    with pytest.raises(KubeError) as refused:
        await client.delete(STATEFUL_SET, "default", "kept")
    assert (refused.value.status, refused.value.retriable) == (403, True)
    for question in (
        ("get", "secrets"),
        ("list", "nodes"),
        ("patch", "nodes"),
        ("create", "pods"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("delete", "serviceaccounts"),
        ("update", "topics.sluicegate.dev"),
        ("patch", "brokerclusters.sluicegate.dev"),
    ):
        with pytest.raises(KubectlError):
            plane.kubectl("auth", "can-i", *question, "-n", "default", f"--as={ACCOUNT}")


async def test_a_short_denial_is_retried_and_a_lasting_denial_is_reported(plane: ControlPlane, kubeconfig: str) -> None:
    """An API server that restarts refuses requests while it has not loaded its RBAC."""
    patient, hasty = KubeClient(kubeconfig), KubeClient(kubeconfig, denied_for_s=1.0)
    plane.kubectl("delete", "rolebinding", "sluicegate-operator-lease", "-n", SYSTEM)
    plane.kubectl("delete", "clusterrolebinding", "sluicegate-operator")
    try:
        wait_for("the rights are gone", lambda: not _may_read_leases(plane), timeout_s=60)
        async with asyncio.timeout(120):
            waiting = asyncio.create_task(elector(patient, "denied", "one").acquire())
            with pytest.raises(KubeError, match="403") as lasting:
                await elector(hasty, "denied", "two").acquire()
            assert not lasting.value.retriable
            assert not waiting.done()
            plane.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
            await waiting
    finally:
        plane.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
        patient.close()
        hasty.close()


def _may_read_leases(plane: ControlPlane) -> bool:
    try:
        plane.kubectl("auth", "can-i", "get", "leases.coordination.k8s.io", "-n", SYSTEM, f"--as={ACCOUNT}")
    except KubectlError:
        return False
    return True


async def test_a_pod_is_deleted_only_as_it_was_seen(plane: ControlPlane, client: KubeClient) -> None:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "seen"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    seen = (await client.get(POD, "default", "seen") or {})["metadata"]
    await client.set_pod_condition("default", "seen", seen["uid"], {"type": "example.org/open", "status": "True"})
    for stale in ({"uid": "another"}, {"uid": seen["uid"], "resource_version": seen["resourceVersion"]}):
        with pytest.raises(KubeConflictError):
            await client.delete(POD, "default", "seen", **stale)
    with pytest.raises(KubeConflictError):
        await client.set_pod_condition("default", "seen", "another", {"type": "example.org/open", "status": "False"})
    with pytest.raises(KubeConflictError):
        await client.patch_metadata(POD, "default", "seen", {"labels": {"a": "1"}}, {"uid": "another"})
    await client.patch_metadata(POD, "default", "seen", {"labels": {"a": "1"}}, {"uid": seen["uid"]})
    await client.patch_metadata(
        POD, "default", "seen", {"labels": {"b": "2"}, "annotations": {"c": "3"}}, {"uid": seen["uid"]}
    )
    now = (await client.get(POD, "default", "seen") or {})["metadata"]
    assert (now["labels"], now["annotations"]["c"]) == ({"a": "1", "b": "2"}, "3")
    await client.delete(POD, "default", "seen", uid=now["uid"], resource_version=now["resourceVersion"])
    left = await client.get(POD, "default", "seen")
    assert left is None or left["metadata"]["deletionTimestamp"]


async def test_delete_is_done_once_and_no_error_the_second_time(plane: ControlPlane) -> None:
    admin = KubeClient(str(plane.kubeconfig))
    made = await admin.apply(config_map("deleted", {}))
    for _ in range(2):
        await admin.delete(kind_of(made), "default", "deleted")
    assert await admin.get(kind_of(made), "default", "deleted") is None
    admin.close()


async def test_with_the_guard_only_the_operator_scales(plane: ControlPlane, client: KubeClient) -> None:
    plane.kubectl("apply", "-f", str(ROOT / "deploy" / "guard.yaml"))
    labels = {"app.kubernetes.io/managed-by": "sluicegate-operator", CLUSTER_LABEL: "guarded"}

    def node_set(replicas: int) -> dict[str, Any]:
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "broker", "image": "none"}]}}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "guarded", "namespace": "default", "labels": labels},
            "spec": {
                "replicas": replicas,
                "serviceName": "guarded",
                "selector": {"matchLabels": {CLUSTER_LABEL: "guarded"}},
                "template": template,
            },
        }

    def refused(*arguments: str) -> bool:
        try:
            plane.kubectl(*arguments)
        except KubectlError as error:
            return "spec.brokers.replicas" in str(error)
        return False

    await client.apply(node_set(3))
    numbers = count(5)
    # A policy is in force a moment after it was made. Scaling to the current number is not a change.
    wait_for(
        "the guard", lambda: refused("scale", "statefulset", "guarded", f"--replicas={next(numbers)}"), timeout_s=30
    )
    assert refused("patch", "statefulset", "guarded", "--type=merge", "--patch", '{"spec": {"replicas": 1}}')
    await client.apply(node_set(4))
    plane.kubectl("label", "statefulset", "guarded", "team=a")
    assert plane.get("statefulset", "guarded")["spec"]["replicas"] == 4
    plane.kubectl("delete", "statefulset", "guarded")
    plane.kubectl("delete", "-f", str(ROOT / "deploy" / "guard.yaml"))


def test_all_of_deploy_is_accepted(plane: ControlPlane) -> None:
    out = plane.kubectl("apply", "--dry-run=server", "--kustomize", str(ROOT / "deploy"))
    variant = f"--kustomize={ROOT / 'deploy' / 'namespaced'}"
    out += plane.kubectl("apply", "--dry-run=server", "--namespace", "default", variant)
    assert out.count("deployment.apps/sluicegate-operator") == 2


async def test_the_lease_of_a_controller_that_is_gone_ends_by_the_operators_own_rights(
    plane: ControlPlane, client: KubeClient
) -> None:
    document = cluster(controllers={"replicas": 3}) | {"metadata": {"name": "shop", "namespace": "default", "uid": "u"}}
    shop = parse_resource(document)
    assert isinstance(shop, BrokerCluster)
    name = journal_name(shop)
    lease = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": name, "namespace": "default", "labels": {JOURNAL_LABEL: name}},
        "spec": {"holderIdentity": "1000_a", "leaseDurationSeconds": 4, "leaseTransitions": 2},
    }
    plane.kubectl("create", "-f", "-", input=json.dumps(lease))
    assert await end_term_of_gone(client, shop) == "the pod of controller 1000 does not exist any more"
    assert not plane.get("lease", name)["spec"].get("holderIdentity")
    assert await end_term_of_gone(client, shop) == ""


async def test_an_api_server_that_is_away_is_said_and_found_again(plane: ControlPlane, client: KubeClient) -> None:
    holder = elector(client, "away", "one")
    await holder.acquire()
    plane.pause_api_server()
    try:
        with pytest.raises(KubeUnavailableError) as away:
            await client.get(LEASE, SYSTEM, "away")
        assert away.value.retriable
        await EventRecorder(client).record(config_map("away", {}), "Warning", "Away", "not posted, and no error")
        async with asyncio.timeout(DURATION_S * 5):
            await holder.run_while_held()
        assert holder.lost.is_set()
    finally:
        plane.resume_api_server()
    async with asyncio.timeout(30):
        await holder.acquire()
    assert holder.held
