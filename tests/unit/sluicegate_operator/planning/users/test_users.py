"""What brings a user to its KafkaUser, and what is remembered of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import BrokerCluster, KafkaUser, parse_resource
from sluicegate_operator.planning.users.acl_rules import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)
from sluicegate_operator.planning.users.users import (
    ObservedUser,
    SetForUser,
    decode_rule,
    encode_rule,
    judge_users,
    plan_user,
    unmanaged,
    wanted_quotas,
    wanted_rules,
)
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.manifests.user_manifests import acl, kafka_user

NONE = SetForUser()
NOTHING = ObservedUser(False, frozenset(), {})


def user(*acls: Json, own: SetForUser = NONE, **spec: Any) -> KafkaUser:
    found = parse_resource(kafka_user("alice", *acls, **spec) | {"status": own.fields()})
    assert isinstance(found, KafkaUser)
    return found


def rule(name: str, operation: AclOperation, **other: Any) -> AclRule:
    values = {
        "resource_type": AclResourceType.TOPIC,
        "pattern_type": AclPatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "permission": AclPermission.ALLOW,
    }
    return AclRule(**{**values, **other}, name=name, operation=operation)


READ, WRITE = rule("orders", AclOperation.READ), rule("orders", AclOperation.WRITE)


def test_an_entry_is_one_acl_for_each_operation() -> None:
    found = wanted_rules(
        user(
            acl("topic", "orders", "Read", "DescribeConfigs"),
            acl("cluster", None, "IdempotentWrite", type="deny", host="192.0.2.7"),
            {"resource": {"type": "transactionalId", "name": "a", "patternType": "prefix"}, "operations": ["All"]},
        )
    )
    assert found == {
        READ,
        rule("orders", AclOperation.DESCRIBE_CONFIGS),
        rule(
            "kafka-cluster",
            AclOperation.IDEMPOTENT_WRITE,
            resource_type=AclResourceType.CLUSTER,
            permission=AclPermission.DENY,
            host="192.0.2.7",
        ),
        rule(
            "a",
            AclOperation.ALL,
            resource_type=AclResourceType.TRANSACTIONAL_ID,
            pattern_type=AclPatternType.PREFIXED,
        ),
    }
    assert str(READ) == "allow READ on topic orders"


def test_a_new_user_gets_everything_and_it_is_remembered_before() -> None:
    plan = plan_user(user(acl(), quotas={"producerByteRate": 5}), NOTHING, "v1")
    assert plan.create == {READ}
    assert not plan.delete
    assert plan.quotas == {"producer_byte_rate": 5.0}
    assert plan.set_credential
    assert plan.remembered == SetForUser(frozenset({READ}), ("producer_byte_rate",), "unconfirmed")
    assert plan.settled == SetForUser(frozenset({READ}), ("producer_byte_rate",), "v1")
    assert plan.changes == "allow READ on topic orders; producer_byte_rate=5; a password"


def test_a_user_as_specified_is_left_alone() -> None:
    own = SetForUser(frozenset({READ}), ("producer_byte_rate",), "v1")
    found = user(acl(), quotas={"producerByteRate": 5}, own=own)
    plan = plan_user(found, ObservedUser(True, frozenset({READ}), {"producer_byte_rate": 5.0}), "v1")
    assert not plan.changes
    assert plan.remembered == plan.settled == own


def test_what_others_have_set_is_never_remembered_and_never_removed() -> None:
    theirs = rule("theirs", AclOperation.ALL)
    observed = ObservedUser(True, frozenset({READ, theirs}), {"producer_byte_rate": 5.0, "request_percentage": 9.0})
    found = user(acl(), quotas={"producerByteRate": 5})
    plan = plan_user(found, observed, "v1")
    assert (plan.create, plan.delete, dict(plan.quotas)) == (frozenset(), frozenset(), {})
    assert plan.settled == SetForUser(frozenset(), (), "v1")
    assert unmanaged(found, observed) == {theirs}


def test_what_leaves_the_spec_is_removed_if_it_was_set_for_the_object() -> None:
    own = SetForUser(frozenset({READ, WRITE}), ("consumer_byte_rate", "producer_byte_rate"), "v1")
    observed = ObservedUser(True, frozenset({READ, WRITE}), {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0})
    plan = plan_user(user(acl("topic", "orders", "Write"), quotas={"consumerByteRate": 6}, own=own), observed, "v1")
    assert not plan.create
    assert plan.delete == {READ}
    assert plan.quotas == {"producer_byte_rate": None}
    assert plan.remembered == own, "until it is removed"
    assert plan.settled == SetForUser(frozenset({WRITE}), ("consumer_byte_rate",), "v1")


def test_a_password_follows_its_secret_and_goes_with_authentication() -> None:
    own = SetForUser(credential="v1")
    assert plan_user(user(own=own), ObservedUser(True), "v2").set_credential
    assert plan_user(user(own=own), ObservedUser(False), "v1").set_credential, "another client removed it"
    without = plan_user(user(acl(), own=own, authentication=None), ObservedUser(True, frozenset({READ})), "")
    assert without.delete_credential
    assert without.settled.credential == ""


def test_the_oldest_of_two_objects_governs_a_user() -> None:
    shop = parse_resource(cluster())
    assert isinstance(shop, BrokerCluster)
    younger = parse_resource(kafka_user("other", userName="alice"))
    assert isinstance(younger, KafkaUser)
    assert judge_users(shop, [user(), younger]) == {
        "other": ("Conflicted", "user alice already belongs to KafkaUser alice; delete one of them")
    }
    assert judge_users(None, [younger])["other"][0] == "ClusterMissing"


def test_quotas_have_kafkas_keys() -> None:
    quotas = {"producerByteRate": 1, "consumerByteRate": 2, "requestPercentage": 3, "controllerMutationRate": 4.5}
    assert wanted_quotas(user(quotas=quotas)) == {
        "producer_byte_rate": 1.0,
        "consumer_byte_rate": 2.0,
        "request_percentage": 3.0,
        "controller_mutation_rate": 4.5,
    }


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30) | st.text(" %25 0Aa", min_size=1)
"""Names, and those that have the characters and parts of an encoded line."""


@given(
    NAMES,
    NAMES,
    NAMES,
    st.sampled_from(AclResourceType),
    st.sampled_from(AclPatternType),
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)
def test_a_remembered_rule_is_read_as_it_was(
    name: str,
    who: str,
    host: str,
    resource: AclResourceType,
    pattern: AclPatternType,
    operation: AclOperation,
    permission: AclPermission,
) -> None:
    one = AclRule(resource, name, pattern, f"User:{who}", host, operation, permission)
    assert decode_rule(encode_rule(one)) == one


def test_the_longest_rules_fit_into_the_status() -> None:
    """Each blank and each percent sign of a user's name is three characters in a line."""
    for character in " %ö":
        entry = acl("transactionalId", "n" * 249, "DescribeConfigs", host="2001:db8:" + ":".join(["1234"] * 6))
        entry["resource"]["patternType"] = "prefix"
        found = user(entry, userName=character * 249)
        own = SetForUser(wanted_rules(found))
        assert SetForUser.of(user(entry, userName=character * 249, own=own)) == own


@pytest.mark.parametrize("text", ["ALLOW READ TOPIC LITERAL * User:50% n", "ALLOW READ TOPIC LITERAL * User:a%20%b n"])
def test_a_line_of_an_earlier_version_is_read(text: str) -> None:
    found = decode_rule(text)
    assert found is not None
    assert found.principal in ("User:50%", "User:a %b")


@pytest.mark.parametrize("text", ["", "a b", "ALLOW READ TOPIC LITERAL * User:a", "ALLOW X TOPIC LITERAL * User:a n"])
def test_a_line_of_another_version_is_left_out(text: str) -> None:
    assert decode_rule(text) is None
