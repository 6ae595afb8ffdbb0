"""The preview of manifests: created, changed while nodes run, restarted and why, refused."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import Manifests, parse_resource
from sluicegate_operator.planning.layout.children import wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import Role, plan_cluster
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.layout.preview_nodes import NodeKind, RunningNodes
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.preview.cluster import ClusterPreview
from sluicegate_operator.preview.manifests import ObjectOutcome, Preview, World, preview, summary
from tests.support.manifests.bad_manifests import Json, cluster, external, listener, quota, topic

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = listener("shop-b")
SECOND["spec"] |= {"name": "B", "port": 9095}
RATE = {"maxConnectionCreationRate": 50}


def manifests(*documents: Json) -> Manifests:
    return Manifests.of([parse_resource(document) for document in documents])


def there(*documents: Json) -> Manifests:
    """Manifests as the API server has them: created a day before."""
    made = {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}
    return manifests(*({**document, "metadata": {**document["metadata"], **made}} for document in documents))


def foretold(before: list[Json], wanted: list[Json], **world: Any) -> Preview:
    return preview(manifests(*wanted), World(there(*before), **world), NOW)


def of_shop(seen: Preview) -> ClusterPreview:
    [found] = seen.clusters
    return found


def reasons(seen: Preview) -> set[tuple[str, str]]:
    return {(node.name, node.why) for node in of_shop(seen).restarts}


BROKERS = [f"shop-brokers-{ordinal}" for ordinal in range(3)]
NODES = [*BROKERS, "shop-controllers-0"]


def test_applied_manifests_change_nothing() -> None:
    documents = [cluster(), listener(), quota({"listener": "EXTERNAL"}, **RATE), topic()]
    seen = foretold(documents, documents)
    assert {item.outcome for item in seen.objects} == {ObjectOutcome.UNCHANGED}
    assert (of_shop(seen), seen.complaints, seen.refused, seen.restarts) == (
        ClusterPreview("default", "shop"),
        (),
        False,
        0,
    )
    assert summary(seen) == "4 unchanged; no node restarts; nothing is deleted"


def test_a_new_cluster_is_made_and_restarts_nothing() -> None:
    seen = foretold([], [cluster(), listener()])
    assert [item.outcome for item in seen.objects] == [ObjectOutcome.CREATED] * 2
    assert of_shop(seen).live == (
        "brokers 0 to 2 and 1 controllers are created",
        "listener EXTERNAL opens at port 9094",
    )
    assert seen.restarts == 0


@pytest.mark.parametrize(
    ("before", "after", "live"),
    [
        (
            [quota({"listener": "EXTERNAL"}, **RATE)],
            [quota({"listener": "EXTERNAL"}, maxConnectionCreationRate=7)],
            "listener EXTERNAL 50/s -> 7/s",
        ),
        ([], [quota({"ip": "10.0.0.1"}, **RATE)], "ip 10.0.0.1 no limit -> 50/s"),
        ([], [quota({"cidr": "10.0.0.0/8"}, limitIs="Shared", **RATE)], "cidr 10.0.0.0/8 (shared) no limit -> 50/s"),
        ([], [SECOND], "listener B opens at port 9095"),
        ([], [cluster(config={"log.retention.ms": "1000"})], "log.retention.ms: default -> 1000"),
        (
            [cluster(config={"log.retention.ms": "1000"})],
            [cluster()],
            "log.retention.ms: 1000 -> default",
        ),
        ([topic(partitions=3)], [topic(partitions=4)], "topic orders gets 4 partitions"),
        ([topic(replicas=1)], [topic(replicas=3)], "topic orders: replicas 1 -> 3, by reassignment"),
        ([topic()], [topic(replicas=2)], "topic orders: replicas the brokers' default -> 2, by reassignment"),
        (
            [],
            [cluster(brokers={"replicas": 4, "storage": {"size": "10Gi"}})],
            "broker 3 is added",
        ),
        (
            [],
            [cluster(brokers={"replicas": 1, "storage": {"size": "10Gi"}})],
            "brokers 1 to 2 are removed when you have moved their replicas to other brokers",
        ),
        (
            [],
            [cluster(brokers={"replicas": 3, "storage": {"size": "20Gi"}})],
            "volumes of brokers 10Gi -> 20Gi, if their StorageClass allows it",
        ),
    ],
)
def test_what_changes_while_nodes_run(before: list[Json], after: list[Json], live: str) -> None:
    kinds = {document["kind"] for document in before}
    base = [document for document in (cluster(), listener()) if document["kind"] not in kinds]
    seen = foretold([*base, *before], after)
    assert of_shop(seen).live == (live,)
    assert (seen.refused, seen.restarts) == (False, 0)


@pytest.mark.parametrize(
    ("spec", "names", "why"),
    [
        ({"config": {"num.io.threads": "9"}}, NODES, "ConfigChanged (num.io.threads)"),
        ({"image": "other:1"}, NODES, "ImageChanged (sluicegate:0.1.0 to other:1)"),
        (
            {"brokers": {"replicas": 3, "storage": {"size": "10Gi"}, "resources": {"limits": {"cpu": "3"}}}},
            BROKERS,
            "ResourcesChanged",
        ),
        ({"connectionQuota": {"windowNum": 3}}, NODES, None),
    ],
)
def test_the_preview_names_restarted_nodes_with_the_reason(spec: Json, names: list[str], why: str | None) -> None:
    seen = foretold([cluster()], [cluster(**spec)])
    assert [node.name for node in of_shop(seen).restarts] == names
    if why is not None:
        assert {node.why for node in of_shop(seen).restarts} == {why}


def test_only_nodes_that_stay_restart() -> None:
    fewer = cluster(brokers={"replicas": 2, "storage": {"size": "10Gi"}}, image="other:1")
    assert {name for name, _ in reasons(foretold([cluster()], [fewer]))} == {*BROKERS[:2], "shop-controllers-0"}


def running(document: Json, image: str = "") -> RunningNodes:
    """Nodes that run this document, made by an operator with its own image."""
    [of] = there(document).clusters
    wanted = {
        role: wanted_revision((Images(nodes=image) if image else Images()).of_cluster(of), plan_cluster(of, []), role)
        for role in Role
    }
    by_name = {name: wanted[Role.BROKER if "broker" in name else Role.CONTROLLER] for name in NODES}
    return RunningNodes(
        {Role.BROKER: 3, Role.CONTROLLER: 1}, {role: one.encode() for role, one in wanted.items()}, by_name
    )


def test_nodes_are_compared_as_they_run() -> None:
    """A change that is reverted before the roll has reached a node never restarts that node."""
    now, next_ = cluster(), cluster(config={"num.io.threads": "9"})
    old, new = running(now).revisions, running(next_)
    behind = {name: old[name] for name in BROKERS[:2]}
    half_rolled = RunningNodes(new.replicas, new.wanted, {**new.revisions, **behind})
    world = {"nodes": {("default", "shop"): half_rolled}}
    assert {name for name, _ in reasons(foretold([next_], [now], **world))} == {BROKERS[2], "shop-controllers-0"}
    # If nothing changes, waiting nodes are named with their reasons.
    assert reasons(foretold([next_], [next_], **world)) == {
        (name, "ConfigChanged (num.io.threads)") for name in BROKERS[:2]
    }


def test_a_restart_that_a_person_has_asked_for_is_a_reason() -> None:
    asked = (RestartReason(ReasonKind.RESTART_REQUESTED, "kubectl rollout restart at noon"),)
    nodes = running(cluster())
    nodes = RunningNodes(nodes.replicas, nodes.wanted, nodes.revisions, {BROKERS[0]: asked})
    seen = foretold([cluster()], [cluster()], nodes={("default", "shop"): nodes})
    assert reasons(seen) == {(BROKERS[0], "RestartRequested (kubectl rollout restart at noon)")}


def test_the_image_of_the_operator_there_is_not_taken_for_a_change() -> None:
    world = {"nodes": {("default", "shop"): running(cluster(), "registry.example.org/sluicegate:9")}}
    assert foretold([cluster()], [cluster()], **world).restarts == 0
    seen = foretold([cluster()], [cluster(image="other:1")], **world)
    assert {node.why for node in of_shop(seen).restarts} == {
        "ImageChanged (registry.example.org/sluicegate:9 to other:1)"
    }
    assert of_shop(seen).notes == ()


def test_another_version_of_the_operator_is_compared_by_manifests_and_that_is_said() -> None:
    strange = RunningNodes({Role.BROKER: 3, Role.CONTROLLER: 1}, dict.fromkeys(Role, "of a later version"))
    waiting = cluster() | {"status": {"rollout": {"reason": "Paused", "waiting": [BROKERS[1]]}}}
    seen = foretold([waiting], [cluster()], nodes={("default", "shop"): strange})
    assert reasons(seen) == {(BROKERS[1], "it is already waiting for a restart")}
    assert "has another version than this command" in of_shop(seen).notes[0]
    assert foretold([cluster()], [cluster(image="other:1")], nodes={("default", "shop"): strange}).restarts == 4


def test_processes_restart_for_their_listeners_and_pods_do_not() -> None:
    before, wanted = [cluster()], [cluster(), listener()]
    assert foretold(before, wanted).restarts == 0
    assert reasons(foretold(before, wanted, kind=NodeKind.PROCESS)) == {
        (f"broker {ordinal} of shop", "ListenersChanged") for ordinal in range(3)
    }


def test_on_a_laptop_what_is_not_named_goes() -> None:
    before = [cluster(), listener(), quota({"listener": "EXTERNAL"}, **RATE), topic(deletionPolicy="Delete")]
    seen = foretold(before, [cluster(), listener()], kind=NodeKind.PROCESS)
    assert [(item.kind, item.outcome) for item in seen.objects][2:] == [
        ("ConnectionQuota", ObjectOutcome.DELETED),
        ("Topic", ObjectOutcome.DELETED),
    ]
    assert of_shop(seen).live == ("listener EXTERNAL 50/s -> no limit", "topic orders is deleted with its records")
    assert summary(seen) == "2 unchanged, 2 deleted; no node restarts"
    assert of_shop(foretold(before, [cluster()])).live == ()


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({"paused": True}, "spec.paused is true: these changes wait until it is false"),
        (
            {"rollout": {"paused": True}},
            "rollout.paused is true: nodes are not restarted until it is false",
        ),
    ],
)
def test_a_pause_is_said(spec: Json, note: str) -> None:
    seen = foretold([cluster()], [cluster(image="other:1", **spec)])
    assert of_shop(seen).notes == (note,)


def test_what_the_api_server_would_refuse_has_no_effect() -> None:
    small = cluster(brokers={"replicas": 3, "storage": {"size": "1Gi"}}, image="other:1")
    seen = foretold([cluster()], [small])
    [item] = seen.objects
    assert (item.outcome, seen.refused, seen.restarts) == (ObjectOutcome.REFUSED, True, 0)
    assert "brokers.storage.size cannot be less" in item.problems[0]


def test_an_object_that_would_stall_is_rejected_unless_it_already_stalls() -> None:
    lost = quota({"listener": "NOWHERE"}, **RATE)
    seen = foretold([cluster(), listener()], [lost])
    [complaint] = seen.complaints
    assert (complaint.kind, seen.refused) == ("ConnectionQuota", True)
    again = foretold([cluster(), listener(), lost], [lost])
    assert (again.complaints, again.refused) == ((), False)
    assert foretold([], [lost]).complaints[0].message.startswith("BrokerCluster shop does not exist")


def test_a_quota_that_has_ended_limits_nothing_and_one_of_pods_waits_for_them() -> None:
    ended = quota({"ip": "10.0.0.1"}, expiresAt="2026-01-01T12:00:00Z", **RATE)
    of_pods = quota({"workload": {"podSelector": {"matchLabels": {"app": "a"}}}}, **RATE)
    of_pods["metadata"] = {"name": "of-pods"}
    seen = foretold([cluster(), listener()], [ended, of_pods])
    assert (of_shop(seen).live, seen.refused, seen.complaints) == ((), False, ())


def test_a_new_object_is_younger_than_what_is_there() -> None:
    first = quota({"ip": "10.0.0.1"}, **RATE) | {"metadata": {"name": "z-first"}}
    second = quota({"ip": "10.0.0.1"}, **RATE) | {"metadata": {"name": "a-second"}}
    seen = foretold([cluster(), listener(), first], [second])
    assert [complaint.name for complaint in seen.complaints] == ["a-second"]


def test_fields_that_change_are_named_with_both_values() -> None:
    seen = foretold([cluster()], [cluster(config={"log.retention.ms": "1000"}, paused=True)])
    assert seen.objects[0].changes == (
        'spec.config[log.retention.ms]: absent -> "1000"',
        "spec.paused: false -> true",
    )


def test_any_key_of_brokers_that_others_run_changes_while_they_run() -> None:
    seen = foretold([external(config={"background.threads": "8"})], [external(config={"background.threads": "12"})])
    assert of_shop(seen).live == ("background.threads: 8 -> 12",)
    assert seen.restarts == 0


def test_values_with_secret_names_are_hidden() -> None:
    key = "ssl.keystore.password"
    seen = foretold([external(config={key: "open"})], [external(config={key: "sesame"})])
    assert seen.objects[0].changes == (f"spec.config[{key}]: [hidden] -> [hidden]",)
    assert of_shop(seen).live == (f"{key}: [hidden] -> [hidden]",)


def test_more_replicas_than_brokers_are_refused_before_they_are_applied() -> None:
    seen = foretold([cluster(), topic(replicas=3)], [topic(replicas=5)])
    [complaint] = seen.complaints
    assert (complaint.kind, complaint.name) == ("Topic", "orders")
    assert "replicas is 5 and the cluster has 3 brokers" in complaint.message
    assert seen.refused
    assert foretold([external(), topic(replicas=3)], [topic(replicas=5)]).complaints == (), "nobody has asked them"
