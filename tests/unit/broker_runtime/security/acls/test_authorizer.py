"""The authorizer: cases of Kafka's StandardAuthorizerTest and AuthorizerTest, and a comparison with a slow oracle."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, Acls, RemoveAccessControlEntryRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.security.acls.authorizer import StandardAuthorizer
from broker_runtime.security.acls.model import Acl, AclOperation, AclPattern, AclPermission, AclResource
from broker_runtime.security.principal import THIS_NODE, Principal
from broker_runtime.slicing.steps import at_once
from tests.support.oracles.acl_oracle import is_allowed, is_any_allowed

TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST, OTHER_HOST = "10.0.0.1", "10.0.0.2"
READ, WRITE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER
DESCRIBE, ALL = AclOperation.DESCRIBE, AclOperation.ALL
CONCRETE = [operation for operation in AclOperation if operation > ALL]


def rule(
    name: str,
    operation: AclOperation,
    permission: AclPermission = ALLOW,
    *,
    pattern: AclPattern = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    resource: AclResource = TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def test_a_frozen_authorizer_keeps_its_acls() -> None:
    acls = filled([rule("orders", DESCRIBE)])
    authorizer = StandardAuthorizer(lambda: acls.index)
    frozen = authorizer.frozen()
    (acl_id,) = acls
    acls.apply(RemoveAccessControlEntryRecord(acl_id), None, Changes())
    assert frozen.allows(ALICE, HOST, DESCRIBE, TOPIC, "orders")
    assert not authorizer.allows(ALICE, HOST, DESCRIBE, TOPIC, "orders")
    assert acls.text_bytes == 0


def filled(acls: Iterable[Acl]) -> Acls:
    area = Acls()
    for number, acl in enumerate(dict.fromkeys(acls)):
        area.apply(AccessControlEntryRecord(UUID(int=number + 1), *acl), None, Changes())
    return area


def authorizer(*acls: Acl, super_users: str = "", allow_everyone: bool = False) -> StandardAuthorizer:
    area = filled(acls)
    users = frozenset(filter(None, [super_users]))
    return StandardAuthorizer(lambda: area.index, users, allow_everyone_if_no_acl_found=allow_everyone)


def allowed(
    one: StandardAuthorizer, operation: AclOperation, name: str, who: Principal = ALICE, host: str = HOST
) -> bool:
    return one.allows(who, host, operation, TOPIC, name)


def test_without_an_acl_everything_is_denied_unless_everyone_is_allowed() -> None:
    assert not allowed(authorizer(), READ, "t")
    open_to_all = authorizer(rule("closed", READ, principal="User:bob"), allow_everyone=True)
    assert allowed(open_to_all, READ, "t")
    assert not allowed(open_to_all, READ, "closed")
    assert not allowed(authorizer(rule("*", READ, principal="User:bob"), allow_everyone=True), READ, "t")


def test_super_users_and_the_node_itself_may_do_everything() -> None:
    one = authorizer(rule("t", ALL, DENY), super_users="User:alice")
    assert allowed(one, READ, "t")
    assert not allowed(one, READ, "t", BOB)
    assert allowed(one, READ, "t", THIS_NODE)
    assert not allowed(one, READ, "t", Principal(THIS_NODE.kind, THIS_NODE.name))


@pytest.mark.parametrize("operation", [READ, WRITE, ALTER, AclOperation.DELETE])
def test_an_allowed_operation_implies_describe_and_a_denied_one_does_not(operation: AclOperation) -> None:
    one = authorizer(rule("t", operation))
    assert [each for each in CONCRETE if allowed(one, each, "t")] == sorted([operation, DESCRIBE])
    one = authorizer(rule("t", ALL), rule("t", operation, DENY))
    assert [each for each in CONCRETE if not allowed(one, each, "t")] == [operation]


def test_alter_configs_implies_describe_configs_and_others_imply_nothing() -> None:
    one = authorizer(rule("t", AclOperation.ALTER_CONFIGS))
    assert [each for each in CONCRETE if allowed(one, each, "t")] == [
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ]
    for operation in (AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE):
        one = authorizer(rule("t", operation))
        assert [each for each in CONCRETE if allowed(one, each, "t")] == [operation]


def test_denial_wins_over_every_allowance_however_general_it_is() -> None:
    for denial in (rule("*", READ, DENY), rule("or", READ, DENY, pattern=PREFIXED), rule("orders", ALL, DENY)):
        one = authorizer(rule("orders", READ), denial)
        assert not allowed(one, READ, "orders")


def test_principals_are_compared_as_a_whole_and_everyone_has_one_spelling() -> None:
    assert allowed(authorizer(rule("t", READ, principal="User:*")), READ, "t", BOB)
    assert allowed(authorizer(rule("t", READ, principal="User:*")), READ, "t", Principal("Other", "x"))
    for wrong in ("User:al*", "Group:alice", "User:Alice", "*:*"):
        assert not allowed(authorizer(rule("t", READ, principal=wrong)), READ, "t")


def test_hosts_are_addresses_or_every_host() -> None:
    one = authorizer(rule("t", READ, host=HOST), rule("t", WRITE), rule("t", WRITE, DENY, host=OTHER_HOST))
    assert [allowed(one, READ, "t", host=host) for host in (HOST, OTHER_HOST)] == [True, False]
    assert [allowed(one, WRITE, "t", host=host) for host in (HOST, OTHER_HOST)] == [True, False]


@pytest.mark.parametrize("spelling", ["2001:db8::1", "2001:db8:0:0:0:0:0:1"])
def test_acls_may_have_the_address_as_apache_kafka_spells_it(spelling: str) -> None:
    one = authorizer(rule("t", READ, host=spelling), rule("t", WRITE), rule("t", WRITE, DENY, host=spelling))
    here, there = "2001:db8::1", "2001:db8::2"
    assert [allowed(one, READ, "t", host=host) for host in (here, there)] == [True, False]
    assert [allowed(one, WRITE, "t", host=host) for host in (here, there)] == [False, True]
    everyone = authorizer(rule("t", READ, principal="User:*", host=spelling))
    assert at_once(everyone.allows_any(BOB, here, READ, TOPIC))
    assert not at_once(everyone.allows_any(BOB, there, READ, TOPIC))


def test_prefixes_and_wildcards_of_names() -> None:
    one = authorizer(rule("f", READ, pattern=PREFIXED), rule("*", WRITE), rule("*", ALTER, pattern=PREFIXED))
    assert allowed(one, READ, "f")
    assert allowed(one, READ, "foo")
    assert not allowed(one, READ, "bar")
    assert allowed(one, WRITE, "any")
    assert [allowed(one, ALTER, name) for name in ("any", "*", "*a")] == [False, True, True]


def test_acls_of_another_type_of_resource_change_nothing() -> None:
    one = authorizer(rule("t", READ, resource=GROUP))
    assert not allowed(one, READ, "t")
    assert one.allows(ALICE, HOST, READ, GROUP, "t")


def test_a_change_of_an_acl_is_in_force_at_the_next_check_and_copies_do_not_see_it() -> None:
    area = filled([rule("t", READ)])
    one = StandardAuthorizer(lambda: area.index)
    assert allowed(one, READ, "t")
    copy = area.copy()
    area.apply(RemoveAccessControlEntryRecord(UUID(int=1)), None, Changes())
    assert not allowed(one, READ, "t")
    assert allowed(StandardAuthorizer(lambda: copy.index), READ, "t")
    assert (len(area), len(copy)) == (0, 1)
    area.apply(AccessControlEntryRecord(UUID(int=2), *rule("t", READ)), None, Changes())
    assert allowed(one, READ, "t")


def test_the_number_of_kept_decisions_is_limited() -> None:
    area = filled([rule("t", READ, pattern=PREFIXED)])
    one = StandardAuthorizer(lambda: area.index, kept_max=3)
    assert all(allowed(one, READ, f"t{number}") for number in range(100))
    assert len(one._kept) <= 3


def test_decisions_about_long_names_are_not_kept() -> None:
    one = authorizer(rule("t", READ, pattern=PREFIXED), rule("t", READ, principal=f"User:{'p' * 2_000}"))
    assert allowed(one, READ, "t" * 32_000)
    assert allowed(one, READ, "t", who=Principal("User", "p" * 2_000))
    assert at_once(one.allows_any(Principal("User", "p" * 2_000), HOST, READ, TOPIC))
    assert not one._kept
    assert allowed(one, READ, "t" * 249)
    assert len(one._kept) == 1


NAMES = st.text("ab*", min_size=1, max_size=5)
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*"])
RULES = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    PRINCIPALS,
    st.sampled_from([HOST, OTHER_HOST, "*"]),
    st.sampled_from([operation for operation in AclOperation if operation >= ALL]),
    st.sampled_from([ALLOW, DENY]),
)


@given(st.lists(RULES, max_size=12, unique=True), st.sets(st.integers(0, 11)), NAMES, st.booleans())
def test_it_decides_as_an_oracle_that_checks_every_acl(
    acls: list[Acl], removed: set[int], name: str, everyone: bool
) -> None:
    area = filled(acls)
    for number in removed:
        if number < len(acls):
            area.apply(RemoveAccessControlEntryRecord(UUID(int=number + 1)), None, Changes())
    left = [acl for number, acl in enumerate(acls) if number not in removed]
    one = StandardAuthorizer(lambda: area.index, allow_everyone_if_no_acl_found=everyone)
    for who in (ALICE, BOB):
        for operation in CONCRETE:
            expected = is_allowed(left, str(who), HOST, operation, TOPIC, name, allow_everyone=everyone)
            assert one.allows(who, HOST, operation, TOPIC, name) == expected


@given(st.lists(RULES, min_size=1, max_size=10, unique=True), st.data())
def test_copies_are_independent_whatever_changes(acls: list[Acl], data: st.DataObject) -> None:
    areas = [filled(acls)]
    ids = [set(areas[0])]
    for number in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(areas) - 1))
        if data.draw(st.booleans()):
            areas.append(areas[at].copy())
            ids.append(set(ids[at]))
        elif ids[at]:
            gone = data.draw(st.sampled_from(sorted(ids[at])))
            acl = areas[at][gone]
            areas[at].apply(RemoveAccessControlEntryRecord(gone), None, Changes())
            ids[at].remove(gone)
            if data.draw(st.booleans()):
                back = UUID(int=1000 + number)
                areas[at].apply(AccessControlEntryRecord(back, *acl), None, Changes())
                ids[at].add(back)
    for area, known in zip(areas, ids, strict=True):
        assert set(area) == known
        fresh = filled(area.values())
        for name in {acl.name for acl in acls} | {"a", "bb"}:
            one, other = StandardAuthorizer(lambda area=area: area.index), StandardAuthorizer(lambda f=fresh: f.index)  # type: ignore[misc]
            assert one.operations(ALICE, HOST, TOPIC, name) == other.operations(ALICE, HOST, TOPIC, name)


@given(st.lists(RULES, max_size=8, unique=True))
def test_any_resource_of_a_type_as_an_oracle_decides(acls: list[Acl]) -> None:
    area = filled(acls)
    one = StandardAuthorizer(lambda: area.index)
    assert at_once(one.allows_any(ALICE, HOST, WRITE, TOPIC)) == is_any_allowed(acls, "User:alice", HOST, WRITE, TOPIC)


def test_any_topic_needs_an_allowance_that_no_denial_covers() -> None:
    def any_topic(*acls: Acl, **more: bool) -> bool:
        return at_once(authorizer(*acls, **more).allows_any(ALICE, HOST, WRITE, TOPIC))  # type: ignore[arg-type]

    assert not any_topic()
    assert any_topic(allow_everyone=True)
    assert any_topic(rule("t", WRITE))
    assert any_topic(rule("t", ALL, pattern=PREFIXED))
    assert not any_topic(rule("t", WRITE), rule("t", WRITE, DENY))
    assert not any_topic(rule("tt", WRITE), rule("t", WRITE, DENY, pattern=PREFIXED))
    assert any_topic(rule("t", WRITE, pattern=PREFIXED), rule("t", WRITE, DENY))
    assert not any_topic(rule("t", WRITE), rule("*", WRITE, DENY))
    assert any_topic(rule("*", WRITE), rule("t", WRITE, DENY))
    assert not any_topic(rule("t", READ))


def test_any_topic_is_searched_in_short_steps_and_an_outdated_result_is_not_kept() -> None:
    prefixed = [rule(f"t{number}-", WRITE, DENY, pattern=PREFIXED) for number in range(1_000)]
    literal = [rule(f"t{number}-x", WRITE) for number in range(1_000)]
    area = filled([*prefixed, *literal])
    one = StandardAuthorizer(lambda: area.index)
    steps = one.allows_any(ALICE, HOST, WRITE, TOPIC)
    for _ in range(20):
        next(steps)
    area.apply(AccessControlEntryRecord(UUID(int=9_999), *rule("free", WRITE)), None, Changes())
    left = sum(1 for _ in steps)
    assert left > 20, "a step has at most 64 names"
    assert not one._kept.get(("User:alice", HOST, TOPIC, WRITE))
    assert at_once(one.allows_any(ALICE, HOST, WRITE, TOPIC)), "the ACL was added while the first search ran"
