"""Connection groups: allowed values, maximum number, and lookups."""

from collections.abc import Sequence

import pytest

from broker_runtime.controller.clients.client_quotas import EntityParts, QuotaChange, alter_quotas, hosts_to_resolve
from broker_runtime.controller.clients.connection_groups import GroupCapacity, GroupLimits
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.metadata.describe_quotas import Component, Match, describe_quotas
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import Metadata

GROUP, IP = "connection-group", "ip"
RATE, MEMBER = "connection_creation_rate", "member"


def group(name: str | None) -> EntityParts:
    return [(GROUP, name)]


def member(name: str | None, address: str | None) -> EntityParts:
    return [(IP, address), (GROUP, name)]


def metadata_with(*quotas: tuple[EntityParts, str, float | None]) -> Metadata:
    metadata = Metadata()
    for entity, key, value in quotas:
        metadata.write(*alter_quotas(entity, [QuotaChange(key, value)], metadata.image, ()))
    return metadata


SHOP = metadata_with(
    (group("shop/a"), RATE, 5.0),
    (group("shop/a"), "shared", 1.0),
    (member("shop/a", "10.0.0.1"), MEMBER, 1.0),
    (member("shop/a", "2001:db8::/32"), MEMBER, 1.0),
    (group("shop/b"), "max_connections", 7.0),
    ([(IP, "10.0.0.1")], RATE, 9.0),
).image


def found(*components: tuple[str, Match, str | None], strict: bool = False) -> Sequence[object]:
    asked = [Component(kind, match, name) for kind, match, name in components]
    return [
        ("+".join(str(name) for _, name in entity), values)
        for entity, values in at_once(describe_quotas(asked, strict, SHOP))
    ]


def test_a_group_and_its_members_are_set_and_read_back() -> None:
    keys = ("shop/a", {RATE: 5.0, "shared": 1.0})
    members = [("shop/a+10.0.0.1", {MEMBER: 1.0}), ("shop/a+2001:db8::/32", {MEMBER: 1.0})]
    exact = (GROUP, Match.EXACT, "shop/a")
    assert found(exact, strict=True) == [keys]
    assert found(exact) == [keys, *members]
    assert found(exact, (IP, Match.SPECIFIED, None)) == members
    assert found(exact, (IP, Match.EXACT, "10.0.0.1"), strict=True) == members[:1]
    assert found((GROUP, Match.EXACT, "shop/none")) == []
    assert found((GROUP, Match.DEFAULT, None)) == []
    assert found((GROUP, Match.SPECIFIED, None), strict=True) == [keys, ("shop/b", {"max_connections": 7.0})]


def test_a_query_without_groups_returns_kafkas_quotas_only() -> None:
    ip = [("10.0.0.1", {RATE: 9.0})]
    assert found() == ip
    assert found((IP, Match.SPECIFIED, None)) == ip
    assert found((IP, Match.EXACT, "10.0.0.1"), strict=True) == ip


def test_a_group_is_gone_with_its_last_key_and_member() -> None:
    metadata = metadata_with(
        (group("g"), RATE, 5.0), (member("g", "::1"), MEMBER, 1.0), (group("g"), RATE, None), (group("g"), RATE, None)
    )
    assert metadata.image.connection_groups["g"].members == {"::1": 1.0}
    metadata.write(*alter_quotas(member("g", "::1"), [QuotaChange(MEMBER, None)], metadata.image, ()))
    assert metadata.image.connection_groups == {}
    assert metadata.image.connection_groups.members_total == 0


def test_a_members_name_is_never_resolved() -> None:
    assert hosts_to_resolve([member("g", "shop"), [(IP, "shop2")]]) == {"shop2"}


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (group(None), RATE, 1, "The name of a connection-group is letters"),
        (group("a b"), RATE, 1, "The name of a connection-group is letters"),
        (group("a/b/c"), RATE, 1, "The name of a connection-group is letters"),
        (group("a/b\n"), RATE, 1, "The name of a connection-group is letters"),
        (group("ä"), RATE, 1, "The name of a connection-group is letters"),
        (group("x" * 321), RATE, 1, "The name of a connection-group is letters"),
        (group(""), RATE, 1, "Empty connection-group not supported"),
        ([*group("g"), ("user", "u")], RATE, 1, "a connection-group should only be combined with an ip"),
        ([*group("g"), ("client-id", "u")], RATE, 1, "a connection-group should only be combined with an ip"),
        (member("g", None), MEMBER, 1, "a default member does not exist"),
        (member("g", "shop"), MEMBER, 1, "shop is neither an IP address nor a range"),
        (member("g", "10.0.0.1/8"), MEMBER, 1, "the range that contains it is 10.0.0.0/8"),
        (member("g", "10.0.0.1/32"), MEMBER, 1, "10.0.0.1/32 must be written as 10.0.0.1"),
        (member("g", "10.0.0.0/255.0.0.0"), MEMBER, 1, "must be written as 10.0.0.0/8"),
        (member("g", "2001:DB8::/32"), MEMBER, 1, "2001:DB8::/32 must be written as 2001:db8::/32"),
        (member("g", "::ffff:10.0.0.1"), MEMBER, 1, "write the member as IPv4"),
        (member("g", "::ffff:10.0.0.0/104"), MEMBER, 1, "write the member as IPv4"),
        (member("g", "fe80::1%eth0"), MEMBER, 1, "without a zone"),
        (member("g", "::1"), MEMBER, 0, "member must be a whole number of at least 1, which identifies the holder"),
        (member("g", "::1"), MEMBER, 7.5, "member must be a whole number of at least 1"),
        (member("g", "::1"), MEMBER, float("inf"), "member must be a whole number of at least 1"),
        (member("g", "::1"), MEMBER, float("nan"), "remove the value to remove the member from the group"),
        (member("g", "::1"), RATE, 1, f"Invalid configuration key {RATE}"),
        (group("g"), MEMBER, 1, "Invalid configuration key member"),
        (group("g"), "shared", 2, "shared must be 0 or 1"),
        (group("g"), "observe", 0.5, "observe must be 0 or 1"),
        (group("g"), RATE, 0, f"Quota {RATE} must be greater than 0"),
        (group("g"), "max_connections", 1.5, "max_connections cannot be a fractional value"),
        (group("g"), "max_connections", 2.0**31, "too large for an INT"),
    ],
)
def test_what_is_refused(entity: EntityParts, key: str, value: float, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        alter_quotas(entity, [QuotaChange(key, float(value))], Metadata().image, ())
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([(GROUP, Match.SPECIFIED, None), ("user", Match.SPECIFIED, None)], "can only be used with an ip"),
        ([(GROUP, Match.EXACT, None)], "set match string to null"),
        ([(GROUP, Match.SPECIFIED, None), (GROUP, Match.EXACT, "g")], "cannot appear more than once"),
    ],
)
def test_bad_filters(components: list[tuple[str, Match, str | None]], message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        found(*components)


def test_a_member_with_another_number_is_the_same_member_of_somebody_else() -> None:
    metadata = metadata_with((member("g", "::1"), MEMBER, 7.0), (member("g", "::1"), MEMBER, 2.0**40 + 1))
    groups = metadata.image.connection_groups
    assert groups["g"].members == {"::1": 1_099_511_627_777}
    assert groups.members_total == 1
    filter_ = [Component(GROUP, Match.EXACT, "g"), Component(IP, Match.EXACT, "::1")]
    assert [values for _, values in at_once(describe_quotas(filter_, False, metadata.image))] == [{MEMBER: 2.0**40 + 1}]
    assert not alter_quotas(member("g", "::1"), [QuotaChange(MEMBER, 2.0**40 + 1)], metadata.image, ())
    room = GroupCapacity(groups, GroupLimits(members_of_one=1))
    room.take(alter_quotas(member("g", "::1"), [QuotaChange(MEMBER, 9.0)], metadata.image, ()))
    with pytest.raises(KafkaError, match="the maximum that"):
        room.take(records("g", "::2"))


def records(name: str, *members: str, remove: bool = False) -> list[ClientQuotaRecord]:
    value = None if remove else 1.0
    return [ClientQuotaRecord(((GROUP, name), (IP, address)), MEMBER, value) for address in members]


def test_there_is_room_for_so_many() -> None:
    image = metadata_with((member("a", "10.0.0.1"), MEMBER, 1.0), (member("b", "10.0.0.2"), MEMBER, 1.0)).image
    room = GroupCapacity(image.connection_groups, GroupLimits(groups=3, members=5, members_of_one=2))
    room.take(records("a", "10.0.0.3"))
    with pytest.raises(KafkaError, match=r"There are already 2 members of one connection-group, the maximum that slu"):
        room.take(records("a", "10.0.0.4"))
    room.take([ClientQuotaRecord(((GROUP, "c"),), RATE, 5.0)])
    with pytest.raises(
        KafkaError, match=r"There are already 3 connection-groups, the maximum that sluicegate\.connection\.groups\.max"
    ):
        room.take([ClientQuotaRecord(((GROUP, "d"),), RATE, 5.0)])
    room.take(records("c", "10.0.0.5", "10.0.0.6"))
    with pytest.raises(KafkaError, match=r"There are already 5 members of all connection-groups"):
        room.take(records("b", "10.0.0.7"))
    room.take(records("a", "10.0.0.1", remove=True))
    room.take(records("b", "10.0.0.7"))


def changed(image: MetadataImage, name: str, **values: float | None) -> Sequence[ClientQuotaRecord]:
    return alter_quotas(group(name), [QuotaChange(key, value) for key, value in values.items()], image, ())


def test_a_rate_of_the_cluster_is_shared_by_the_members() -> None:
    needs = "cluster 1 needs shared 1: the members share the one rate of all brokers; set shared to 1, or cluster to 0"
    metadata = metadata_with((group("shop/a"), RATE, 5.0))
    with pytest.raises(KafkaError, match=needs):
        changed(metadata.image, "shop/a", cluster=1.0)
    with pytest.raises(KafkaError, match=needs):
        changed(metadata.image, "shop/a", cluster=1.0, shared=0.0)
    with pytest.raises(KafkaError, match="cluster must be 0 or 1"):
        changed(metadata.image, "shop/a", cluster=2.0, shared=1.0)
    metadata.write(*changed(metadata.image, "shop/a", cluster=1.0, shared=1.0))
    with pytest.raises(KafkaError, match=needs):
        changed(metadata.image, "shop/a", shared=None)
    metadata.write(*changed(metadata.image, "shop/a", shared=None, cluster=0.0))
    assert metadata.image.connection_groups["shop/a"].keys == {RATE: 5.0, "cluster": 0.0}


def test_the_number_of_groups_with_a_rate_of_the_cluster_is_limited() -> None:
    of_cluster = {RATE: 5.0, "shared": 1.0, "cluster": 1.0}
    metadata = metadata_with(*((group("shop/a"), key, of_cluster[key]) for key in (RATE, "shared", "cluster")))
    image = metadata.image
    assert image.connection_groups.cluster_wide_total == image.connection_groups.copy().cluster_wide_total == 1
    capacity = GroupCapacity(image.connection_groups, GroupLimits(cluster_wide=2))
    capacity.take(changed(image, "shop/b", **of_cluster))
    full = "already 2 connection-groups with cluster 1.*sluicegate.connection.groups.cluster.max"
    with pytest.raises(KafkaError, match=full):
        capacity.take(changed(image, "shop/c", **of_cluster))
    capacity.take(changed(image, "shop/c", connection_creation_rate=7.0))
    capacity.take(changed(image, "shop/a", cluster=None))
    capacity.take(changed(image, "shop/c", **of_cluster))
    metadata.write(*changed(image, "shop/a", cluster=None))
    assert metadata.image.connection_groups.cluster_wide_total == 0
    metadata.write(*changed(metadata.image, "shop/a", cluster=1.0))
    metadata.write(*changed(metadata.image, "shop/a", **dict.fromkeys(of_cluster)))
    assert metadata.image.connection_groups.cluster_wide_total == 0
