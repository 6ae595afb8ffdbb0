"""Warnings about an object when it is applied."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.preview.admission import LENGTH_MAX, NAMES_MAX, WARNINGS_MAX, admission_warnings
from tests.support.manifests.bad_manifests import Json, cluster, external, listener, manifest, observer, quota, topic

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SHOP = [cluster(), listener()]

MISSING = "BrokerCluster shop does not exist in namespace default, or is being deleted; create it or correct clusterRef"


def stored(document: Json, **meta: Any) -> Resource:
    """The resource as the API server has it: created a day before."""
    own = {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}
    return read_stored({**document, "metadata": {**document["metadata"], **own, **meta}})


def named(name: str, document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "name": name}}


def second_listener(port: int) -> Json:
    document = listener("second", port=port)
    return {**document, "spec": document["spec"] | {"name": "SECOND"}}


def warned(applied: Json, around: list[Json], old: Json | None = None, **more: Any) -> tuple[str, ...]:
    """Warnings about an object that is created, or that was `old` before."""
    made = {} if old is not None else {"creationTimestamp": None}
    before = stored(old) if old is not None else None
    return admission_warnings(stored(applied, **made), before, [stored(one) for one in around], NOW, **more)


@pytest.mark.parametrize(
    ("applied", "around", "said"),
    [
        (
            quota({"listener": "EXTERNAL"}),
            [],
            MISSING,
        ),
        (
            topic(),
            [],
            MISSING,
        ),
        (
            quota({"listener": "OTHER"}),
            SHOP,
            "no BrokerListener of cluster shop has spec.name OTHER; create it or correct target.listener",
        ),
        (
            quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=80),
            [*SHOP, named("older", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=50))],
            "other quotas have the same target, and these are enforced instead: maxConnectionCreationRate 50"
            " of ConnectionQuota older; delete one of the quotas or change its target",
        ),
        (
            topic("second", topicName="orders"),
            [*SHOP, topic("orders")],
            "topic orders already belongs to Topic orders; delete one of them",
        ),
        (
            second_listener(9094),
            SHOP,
            "port 9094 is already used by BrokerListener shop-external; choose another",
        ),
        (
            observer("second", name="orders"),
            [*SHOP, observer("orders")],
            "ObserverPlugin orders is older and has the name orders, too; give this one another spec.name",
        ),
        (
            topic(config={"min.insync.replicas": "3"}, replicas=2),
            SHOP,
            "spec.config: min.insync.replicas is 3, and spec.replicas is 2: so many replicas are never in sync",
        ),
        (
            cluster(config={"default.replication.factor": "4"}),
            [],
            "spec.config: default.replication.factor is 4, and spec.brokers.replicas is 3",
        ),
        (
            manifest(
                "AuditPipeline",
                {"clusterRef": {"name": "shop"}, "results": {"uri": "s3://audit/shop"}, "schedule": "0 * * * *"},
            ),
            SHOP,
            "the audit log of BrokerCluster shop is not landed",
        ),
        (
            quota({"ip": "10.0.0.9"}, maxConnectionCreationRate=300, scope="Cluster"),
            [external()],
            "cluster shop has runtime External, and Apache Kafka has no rates of all brokers together; remove scope",
        ),
    ],
    ids=lambda value: "" if isinstance(value, list | str) else value["kind"],
)
def test_a_refusal_that_depends_on_other_objects_gives_one_warning(
    applied: Json, around: list[Json], said: str
) -> None:
    [sentence] = warned(applied, around)
    assert said in sentence
    assert len(sentence) <= LENGTH_MAX


@pytest.mark.parametrize(
    "applied",
    [
        cluster(),
        external(),
        quota({"listener": "EXTERNAL"}),
        quota({"ip": "10.0.0.9"}),
        topic(),
        second_listener(9095),
        observer(),
    ],
    ids=lambda document: document["kind"],
)
def test_an_object_that_takes_effect_has_no_warning(applied: Json) -> None:
    around = [] if applied["kind"] == "BrokerCluster" else SHOP
    assert warned(applied, around) == ()


def test_a_new_object_takes_nothing_from_older_ones() -> None:
    assert warned(topic("a-topic", topicName="orders"), [*SHOP, topic("orders")]) == (
        "topic orders already belongs to Topic orders; delete one of them",
    )


def test_another_quota_that_loses_its_target_is_named() -> None:
    older = named("older", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=50))
    [said] = warned(named("new", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=20)), [*SHOP, older])
    assert said.startswith(
        "ConnectionQuota older: other quotas have the same target, and these are enforced instead:"
        " maxConnectionCreationRate 20 of"
    )


def test_problems_of_other_objects_are_not_repeated() -> None:
    rivals = [
        named(name, quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=rate)) for name, rate in (("a", 1), ("b", 2))
    ]
    [said] = warned(named("new", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=3)), [*SHOP, *rivals])
    assert said.startswith(
        "other quotas have the same target, and these are enforced instead: maxConnectionCreationRate 1 of"
        " ConnectionQuota a"
    )


def test_a_change_that_restarts_nodes_gives_the_warning_of_plan() -> None:
    assert warned(cluster(config={"num.io.threads": "9"}), SHOP, cluster()) == (
        "restarts shop-brokers-0, shop-brokers-1, shop-brokers-2, shop-controllers-0: ConfigChanged (num.io.threads)",
    )
    assert warned(cluster(config={"log.retention.ms": "1000"}), SHOP, cluster()) == (), "it changes while brokers run"
    many = {"replicas": 40, "storage": {"size": "10Gi"}}
    [said] = warned(cluster(brokers=many, config={"num.io.threads": "9"}), SHOP, cluster(brokers=many))
    assert said.startswith(
        f"restarts shop-brokers-0, shop-brokers-1, shop-brokers-2, shop-brokers-3 and {41 - NAMES_MAX} "
    )


def test_a_restart_that_an_earlier_change_has_caused_is_not_said_again() -> None:
    before = cluster() | {"status": {"rollout": {"waiting": ["shop-brokers-0"]}}}
    assert warned(cluster(config={"log.retention.ms": "1000"}) | {"status": before["status"]}, SHOP, before) == ()


def test_a_pause_is_said_with_the_restarts() -> None:
    before = cluster(paused=True)
    said = warned(cluster(paused=True, config={"num.io.threads": "9"}), SHOP, before)
    assert said[1:] == ("spec.paused is true: these changes wait until it is false",)


def test_the_operators_own_images_are_those_of_nodes_that_name_none() -> None:
    images = Images(nodes="registry.example.org/sluicegate:1")
    assert warned(cluster(image="registry.example.org/sluicegate:1"), SHOP, cluster(), images=images) == ()
    [said] = warned(cluster(image="other:2"), SHOP, cluster(), images=images)
    assert said.endswith("ImageChanged (registry.example.org/sluicegate:1 to other:2)")


def test_a_spec_that_is_unchanged_and_an_object_that_is_being_deleted_are_not_judged() -> None:
    assert warned(quota({"listener": "OTHER"}), SHOP, quota({"listener": "OTHER"})) == ()
    leaving = stored(quota({"listener": "OTHER"}), deletionTimestamp="2026-01-02T00:00:00Z")
    assert admission_warnings(leaving, None, [stored(one) for one in SHOP], NOW) == ()


def test_a_change_that_mends_nothing_is_said_again() -> None:
    old = quota({"listener": "OTHER"}, maxConnectionCreationRate=3)
    assert len(warned(quota({"listener": "OTHER"}, maxConnectionCreationRate=4), SHOP, old)) == 1


def test_there_are_few_warnings_and_the_last_says_how_many_are_left_out() -> None:
    rivals = [
        named(f"r{number}", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=100))
        for number in range(WARNINGS_MAX + 3)
    ]
    said = warned(named("new", quota({"ip": "10.0.0.1"}, maxConnectionCreationRate=2)), [*SHOP, *rivals])
    assert len(said) == WARNINGS_MAX
    assert said[-1] == "and 4 more; `sluicegate plan` lists all of them"
