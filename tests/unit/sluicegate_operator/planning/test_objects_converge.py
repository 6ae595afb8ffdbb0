"""From any observed objects of Kubernetes, executing the plans ends."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import (
    BrokerRegistration,
    parse_resource,
)
from sluicegate_operator.planning.clusters.claims import VolumeClaim, plan_claims
from sluicegate_operator.planning.layout.cluster_layout import Role, cluster_id
from sluicegate_operator.planning.layout.volumes import Volume, plan_volumes, volumes_seen
from sluicegate_operator.planning.registrations.fencing import BrokerPod
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.registrations.racks import NodeLabels, RackPod, plan_racks
from sluicegate_operator.planning.registrations.registrations import SeenBrokers, plan_registrations
from tests.support.manifests.bad_manifests import Json
from tests.support.worlds.settling_world import NOW, settles, shop

STATES = st.sampled_from(list(BrokerState))
OVERVIEWS = st.dictionaries(st.integers(0, 4), st.tuples(STATES, st.integers(0, 3), st.floats(0, 100)), max_size=4).map(
    lambda found: ClusterOverview(
        "c",
        1000,
        1,
        9,
        tuple(
            BrokerOverview(id_, 5, "i", state, replicas=held, out_of_sync=held, heartbeat_age_s=age, host="10.0.0.1")
            for id_, (state, held, age) in sorted(found.items())
        ),
    )
)


@given(OVERVIEWS, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_registrations(overview: ClusterOverview, pods: set[int], existing: set[int]) -> None:
    def registered(id_: int, manifest: Mapping[str, Any], status: Json) -> BrokerRegistration:
        meta = {"name": manifest["metadata"]["name"], "uid": f"of {id_}", "generation": 1}
        found = parse_resource({**manifest, "metadata": meta, "status": status})
        assert isinstance(found, BrokerRegistration)
        return found

    seen = SeenBrokers(overview, [BrokerPod(f"shop-brokers-{id_}", id_, "10.0.0.1") for id_ in sorted(pods)])
    spec = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerRegistration"}
    objects = {
        f"shop-{id_}": registered(
            id_,
            {
                **spec,
                "metadata": {"name": f"shop-{id_}"},
                "spec": {"clusterRef": {"name": "shop"}, "brokerId": id_},
            },
            {},
        )
        for id_ in existing
    }

    def look() -> bool:
        plan = plan_registrations(shop(), list(objects.values()), seen, NOW)
        todo = bool(plan.delete)
        for name in plan.delete:
            del objects[name]
        for one in plan.registrations:
            old = objects.get(one.name)
            todo = todo or old is None or old.status != one.status or bool(one.events)
            objects[one.name] = registered(one.broker_id, one.manifest, one.status.manifest())
        return todo

    settles(look)
    assert set(objects) == {f"shop-{broker.id}" for broker in overview.brokers}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(list(Role)), st.integers(0, 3)),
        st.tuples(st.booleans(), st.booleans(), st.integers(-10, 10)),
    ),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_claims(
    found: dict[tuple[Role, int], tuple[bool, bool, int]], count: int, deletes: bool, started: bool
) -> None:
    """Claims with this cluster's data are marked and owned as spec.storage says; others stay unchanged."""
    owner = shop(storage={"deleteClaims": deletes})
    claims = {
        key: VolumeClaim(
            f"data-shop-{key[0]}s-{key[1]}",
            "uid",
            *key,
            NOW + timedelta(seconds=age_s),
            cluster_id(owner) if marked else None,
            frozenset({owner.metadata.uid}) if goes else frozenset(),
        )
        for key, (marked, goes, age_s) in found.items()
    }

    def look() -> bool:
        plan = plan_claims(owner, claims.values(), count, started=started)
        if plan.taken:
            assert not plan.unmarked
            assert not plan.misowned
            return False
        for claim in plan.unmarked:
            key = (claim.role, claim.ordinal)
            claims[key] = replace(claims[key], cluster_id=cluster_id(owner))
        for claim in plan.misowned:
            key = (claim.role, claim.ordinal)
            claims[key] = replace(claims[key], goes_with=claims[key].goes_with ^ {owner.metadata.uid})
        return bool(plan.unmarked or plan.misowned)

    settles(look)


SIZES = ["1Gi", "1536Mi", "2Gi", "4Gi"]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(list(Role)), st.integers(0, 3)),
        st.tuples(st.sampled_from(SIZES), st.booleans()),
    ),
    st.integers(1, 4),
    st.sampled_from(SIZES),
)
def test_volumes(found: dict[tuple[Role, int], tuple[str, bool]], count: int, size: str) -> None:
    """With a driver that binds pending claims and grows others by the next check; nothing ever shrinks."""
    owner = shop(brokers={"replicas": count, "storage": {"size": size}})
    counts = {Role.BROKER: count, Role.CONTROLLER: 1}
    world = {
        key: Volume(f"data-shop-{key[0]}s-{key[1]}", "uid", *key, asked, asked if bound else "")
        for key, (asked, bound) in found.items()
    }
    before = dict(world)

    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        for key, volume in world.items():
            bound = volume.is_bound or looks > 1
            world[key] = replace(volume, capacity=volume.asked if bound else "")
        plan = plan_volumes(owner, world.values(), counts)
        for growth in plan.grow:
            assert growth.volume.is_bound, "the API server refuses any other"
            key = (growth.volume.role, growth.volume.ordinal)
            world[key] = replace(world[key], asked=growth.size)
        for new in plan.make:
            assert (new.role, new.ordinal) not in world
            world[new.role, new.ordinal] = Volume("", "", new.role, new.ordinal, new.storage.size)
        return bool(plan.grow or plan.make or volumes_seen(owner, plan, plan.grow, {}).status.growing)

    settles(look)
    for key, volume in before.items():
        assert SIZES.index(world[key].asked) >= SIZES.index(volume.asked)
        if key[1] >= counts[key[0]]:
            assert world[key].asked == volume.asked, "that of a node that is not wanted is left alone"
    assert all(SIZES.index(world[Role.BROKER, ordinal].asked) >= SIZES.index(size) for ordinal in range(count))


@given(st.lists(st.tuples(st.sampled_from(["", "n1", "n2", "n3"]), st.sampled_from(["", "zone-a"])), max_size=4))
def test_racks(found: list[tuple[str, str]]) -> None:
    nodes = {"n1": NodeLabels({"zone": "zone-a"}), "n2": NodeLabels({}), "n3": NodeLabels(None, "no answer")}
    pods = {f"shop-brokers-{n}": RackPod(f"shop-brokers-{n}", "u", node, rack) for n, (node, rack) in enumerate(found)}

    def look() -> bool:
        plan = plan_racks("zone", list(pods.values()), nodes)
        for assignment in plan.assign:
            pods[assignment.pod.name] = replace(assignment.pod, rack=assignment.rack)
        return bool(plan.assign)

    settles(look)
    assert all(pod.rack for pod in pods.values() if pod.node == "n1")
