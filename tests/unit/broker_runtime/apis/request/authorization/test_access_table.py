"""The table of checks: every API is in it, or has a reason not to be."""

from broker_runtime.apis.request.authorization.access_table import CHECKS, GATE, UNCHECKED, code_of, operations_of
from broker_runtime.apis.table import CONTROLLER_APIS, COUNTED_APIS
from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.wire.versions import CREATE_TOPICS, FETCH, METADATA, PRODUCE


def test_every_api_is_checked_or_has_a_reason_not_to_be() -> None:
    served = {api.key for api in (*COUNTED_APIS, *CONTROLLER_APIS)}
    assert served == CHECKS.keys() | UNCHECKED.keys()
    assert not CHECKS.keys() & UNCHECKED.keys()


def test_operations_and_codes_are_those_of_the_table() -> None:
    assert operations_of(PRODUCE, AclResource.TOPIC) == (AclOperation.WRITE,)
    assert operations_of(METADATA, AclResource.TOPIC)[0] == AclOperation.DESCRIBE
    assert operations_of(CREATE_TOPICS, AclResource.TOPIC)[0] == AclOperation.CREATE
    assert code_of(PRODUCE, AclResource.TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code_of(FETCH, AclResource.CLUSTER) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_what_the_gate_refuses_needs_one_permission_only() -> None:
    assert all(len(CHECKS[key]) == 1 for key in GATE)
