"""The keys of the authorizer, and configurations with which a cluster would lock itself out."""

from collections.abc import Mapping

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.keys.authorizer import STANDARD_AUTHORIZER, principals
from broker_runtime.errors import ConfigError

SINGLE = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "authorizer.class.name": STANDARD_AUTHORIZER}
BROKER = SINGLE | {"process.roles": "broker", "controller.quorum.bootstrap.servers": "c:9093"}
CONTROLLER = SINGLE | {
    "process.roles": "controller",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}


def test_principals_are_separated_by_semicolons_because_names_may_contain_commas() -> None:
    assert principals(" User:alice; User:CN=a,O=b ;;") == {"User:alice", "User:CN=a,O=b"}
    assert principals("") == frozenset()


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:a;bob"])
def test_a_principal_needs_a_type_and_a_name(text: str) -> None:
    with pytest.raises(ConfigError, match="must have principals such as User:alice"):
        broker_settings(SINGLE | {"super.users": text})


def test_other_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match="implements that one itself and cannot run other classes"):
        broker_settings(SINGLE | {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


@pytest.mark.parametrize("properties", [BROKER, CONTROLLER], ids=["broker", "controller"])
def test_nodes_that_would_refuse_each_other_do_not_start(properties: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"add User:ANONYMOUS to super\.users"):
        broker_settings(properties)
    for enough in ({"super.users": "User:ANONYMOUS"}, {"allow.everyone.if.no.acl.found": "true"}):
        broker_settings(dict(properties) | enough)
    broker_settings({**properties, "authorizer.class.name": ""})


def test_a_single_node_needs_no_permission_for_itself() -> None:
    broker_settings(SINGLE)
