"""The authorizer that a node's configuration asks for, and its gate on a controller that is on standby."""

from typing import Any, cast

from broker_runtime.apis.partitions import list_partition_reassignments
from broker_runtime.config import broker_settings
from broker_runtime.config.keys.authorizer import STANDARD_AUTHORIZER
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.node.clients.authorization import authorization, gate_of
from broker_runtime.security.acls.model import CLUSTER_NAME, AclOperation, AclResource
from broker_runtime.security.principal import ANONYMOUS, Principal
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.access import authorization_of
from tests.support.requests.calls import a_call

FILE = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"}
ALICE = Principal("User", "alice")
DESCRIBE = AclOperation.DESCRIBE


def made(**more: str) -> Any:
    given = FILE | {key.replace("_", "."): value for key, value in more.items()}
    return authorization(broker_settings(given), ManualClock(), MetadataImage)


def test_without_the_key_there_is_no_authorizer_and_no_gate() -> None:
    assert made() is None
    assert gate_of(None) is None


def test_super_users_and_the_default_are_those_of_the_file() -> None:
    one = made(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:alice").authorizer
    allowed = [one.allows(who, "h", DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME) for who in (ALICE, ANONYMOUS)]
    assert allowed == [True, False]
    open_to_all = made(authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found="true").authorizer
    assert open_to_all.allows(ANONYMOUS, "h", DESCRIBE, AclResource.TOPIC, "t")


def test_a_standby_lets_requests_pass_so_that_their_senders_try_another_controller() -> None:
    active = [False]
    denies_all = authorization_of()
    gate = gate_of(denies_all, lambda: active[0])
    call = a_call(cast("Any", list_partition_reassignments.API), 0, denies_all)
    assert gate is not None
    assert gate(call) is None
    active[0] = True
    assert gate(call) is not None
