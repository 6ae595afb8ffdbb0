"""Volumes grow with spec.storage, claim by claim, and the status meanwhile."""

from decimal import Decimal
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.schema.quantities import stored_amount
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.volumes import Growth, Volume, VolumesSeen, plan_volumes, volumes_seen
from tests.support.manifests.bad_manifests import cluster


def shop(size: str = "2Gi", **spec: Any) -> BrokerCluster:
    of = parse_resource(cluster(brokers={"replicas": 3, "storage": {"size": size}}, **spec))
    assert isinstance(of, BrokerCluster)
    return of


def volume(ordinal: int, asked: str = "1Gi", *, role: Role = Role.BROKER, **fields: str) -> Volume:
    name = f"data-shop-{role}s-{ordinal}"
    return Volume(name, f"uid of {name}", role, ordinal, asked, **({"capacity": asked, "class_name": "fast"} | fields))


def seen(*volumes: Volume, count: int = 3, refused: str = "") -> VolumesSeen:
    plan = plan_volumes(shop(), volumes, {Role.BROKER: count, Role.CONTROLLER: 1})
    names = {growth.volume.claim: refused for growth in plan.grow[:1] if refused}
    return volumes_seen(shop(), plan, [growth for growth in plan.grow if not names], names)


def test_only_claims_smaller_than_wanted_grow() -> None:
    volumes = [volume(0), volume(1, "2Gi"), volume(2, "4Gi"), volume(7), volume(0, role=Role.CONTROLLER)]
    plan = plan_volumes(shop(), volumes, {Role.BROKER: 3, Role.CONTROLLER: 1})
    # Larger claims stay unchanged, and so does that of a broker that was scaled away.
    assert plan.grow == (Growth(volumes[0], "2Gi"),)
    assert plan.make == ()


def test_equal_sizes_are_equal_however_they_are_written() -> None:
    counts = {Role.BROKER: 1, Role.CONTROLLER: 0}
    plan = plan_volumes(shop("1024Mi"), [volume(0)], counts)
    assert (plan.grow, plan.make) == ((), ())


@pytest.mark.parametrize("stored", ["4e9", "4E9", "4000000000", "4G", "4.e9", "4000000000000m"])
def test_sizes_of_claims_are_read_as_the_api_server_may_return_them(stored: str) -> None:
    """A user who hands a claim over, or who has created its volume, may have written any quantity."""
    assert [stored_amount(text) for text in (stored, "4e3M")] == [Decimal(4 * 10**9), Decimal(0)]
    there = volume(0, stored, capacity=stored)
    assert plan_volumes(shop("2Gi"), [there], {Role.BROKER: 1, Role.CONTROLLER: 0}).grow == ()
    assert seen(there, count=1).status.growing == ()


def test_a_claim_that_is_not_bound_waits_and_that_is_said() -> None:
    pending = volume(0, capacity="")
    assert plan_volumes(shop(), [pending], {Role.BROKER: 1, Role.CONTROLLER: 0}).grow == ()
    assert seen(pending, count=1).status.growing == (
        "data-shop-brokers-0 is not bound to a volume yet; the requested size is 2Gi",
    )
    assert seen(volume(0, "2Gi", capacity=""), count=1).status.growing == (), "its pod waits for it, and says so"


def test_claims_of_nodes_that_have_none_are_made_but_those_whose_name_is_not_free_yet() -> None:
    counts = {Role.BROKER: 4, Role.CONTROLLER: 1}
    there = [volume(0, "2Gi"), volume(2, "2Gi")]
    made = plan_volumes(shop(), there, counts, {(Role.BROKER, 1), (Role.CONTROLLER, 3)}).make
    assert [(new.role, new.ordinal, new.storage.size) for new in made] == [
        (Role.BROKER, 3, "2Gi"),
        (Role.CONTROLLER, 0, "1Gi"),
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"asked": "1Gi"}, "has 1Gi of 2Gi: the rest has been requested from Kubernetes"),
        ({"asked": "2Gi", "under_way": "Resizing"}, "has 1Gi of 2Gi: Resizing"),
        (
            {"asked": "2Gi", "under_way": "FileSystemResizePending Waiting for a pod"},
            "has 1Gi of 2Gi: FileSystemResizePending Waiting for a pod",
        ),
    ],
)
def test_each_claim_says_how_far_it_is(fields: dict[str, str], said: str) -> None:
    found = seen(volume(0, fields["asked"], capacity="1Gi", under_way=fields.get("under_way", "")), count=1)
    assert found.status.growing == (f"data-shop-brokers-0 {said}",)
    assert (found.status.brokers, found.refused) == ("2Gi", "")


def test_a_volume_of_the_wanted_size_is_not_reported() -> None:
    found = seen(volume(0, "2Gi"), volume(0, "1Gi", role=Role.CONTROLLER), count=1)
    assert found.status.growing == ()
    assert (found.status.brokers, found.status.controllers) == ("2Gi", "1Gi")


def test_a_class_that_refuses_is_named_with_both_ways_out() -> None:
    found = seen(volume(0), volume(1), refused="403 no", count=2)
    assert found.refused == found.status.growing[0]
    for part in (
        "data-shop-brokers-0 stays at 1Gi",
        "StorageClass fast",
        "allowVolumeExpansion",
        "back to 1Gi",
        "403 no",
    ):
        assert part in found.refused
    assert found.status.growing[1] == "data-shop-brokers-1 has 1Gi, and 2Gi has not been requested yet"
    assert found.status.brokers == "1Gi", "so that it can be taken back"
