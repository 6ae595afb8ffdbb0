"""The outcome of each resource, from the bytes of an answer. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from broker_runtime.apis.request.call import Call
from broker_runtime.observers.audit_log.changes.asked import Identity, quota_entity
from broker_runtime.observers.layout import view_of
from broker_runtime.observers.source import MessageSource
from broker_runtime.observers.view import Struct
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire import versions
from broker_runtime.wire.messages import message_type
from broker_runtime.wire.reply import FileRegion

Outcome = tuple[tuple[Identity, ...], int]
"""The outcome of a resource in an answer: the names of the resource, and its error code."""

_HEADER_BYTES: Final = 8
"""Size of the header of an answer, with its size field."""
_JOINED_IN_A_STEP: Final = 16


def answer_of(call: Call) -> Steps[Struct]:
    """Return the call's answer, which is not empty, as a view of its bytes."""
    at = _HEADER_BYTES + call.flexible
    chunks = [chunk for chunk in call.reply if not isinstance(chunk, FileRegion)]
    if len(chunks) == 2 and len(chunks[0]) == at:
        source, at = MessageSource(memoryview(chunks[1])), 0
    elif len(chunks) == 1:
        source = MessageSource(memoryview(chunks[0]))
    else:
        whole = bytearray()
        for number, chunk in enumerate(chunks):
            whole += chunk
            if number % _JOINED_IN_A_STEP == 0:
                yield
        source = MessageSource(memoryview(whole))
    return view_of(message_type(call.api.key, call.version, "Response"), source, at)


def whole_error(answer: Struct) -> int:
    """Return the error code of the whole request; 0 if the answer has none."""
    return int(answer.get("error_code")) if "error_code" in answer.fields else 0


def outcomes(api_key: int, answer: Struct) -> Iterator[Outcome]:
    """Yield the outcome of each resource that the answer names."""
    found = _BY_API.get(api_key)
    if found is not None:
        yield from found(answer)


def _by_field(array: str, *names: str) -> Callable[[Struct], Iterator[Outcome]]:
    def found(answer: Struct) -> Iterator[Outcome]:
        if array not in answer.fields:
            return
        for item in answer.get_array(array).passing():
            yield tuple(item.get(name) for name in names if name in item.fields), item.error_code

    return found


def _by_number(array: str) -> Callable[[Struct], Iterator[Outcome]]:
    def found(answer: Struct) -> Iterator[Outcome]:
        for number, item in enumerate(answer.get_array(array).passing()):
            yield (number,), item.error_code

    return found


def _by_partition(array: str, topic: str, inner: str, index: str) -> Callable[[Struct], Iterator[Outcome]]:
    def found(answer: Struct) -> Iterator[Outcome]:
        for each in answer.get_array(array).passing():
            name = each.get(topic)
            for item in each.get_array(inner).passing():
                yield ((name, item.get(index)),), item.error_code

    return found


def _of_configs(answer: Struct) -> Iterator[Outcome]:
    for item in answer.get_array("responses").passing():
        yield ((item.get("resource_type"), item.get("resource_name")),), item.error_code


def _of_quotas(answer: Struct) -> Iterator[Outcome]:
    for item in answer.get_array("entries").passing():
        yield (quota_entity(item.get_array("entity")),), item.error_code


_BY_API: Final[Mapping[int, Callable[[Struct], Iterator[Outcome]]]] = {
    versions.CREATE_TOPICS: _by_field("topics", "name"),
    versions.DELETE_TOPICS: _by_field("responses", "name", "topic_id"),
    versions.DELETE_RECORDS: _by_partition("topics", "name", "partitions", "partition_index"),
    versions.CREATE_ACLS: _by_number("results"),
    versions.DELETE_ACLS: _by_number("filter_results"),
    versions.ALTER_CONFIGS: _of_configs,
    versions.ALTER_REPLICA_LOG_DIRS: _by_partition("results", "topic_name", "partitions", "partition_index"),
    versions.CREATE_PARTITIONS: _by_field("results", "name"),
    versions.DELETE_GROUPS: _by_field("results", "group_id"),
    versions.ELECT_LEADERS: _by_partition("replica_election_results", "topic", "partition_result", "partition_id"),
    versions.INCREMENTAL_ALTER_CONFIGS: _of_configs,
    versions.ALTER_PARTITION_REASSIGNMENTS: _by_partition("responses", "name", "partitions", "partition_index"),
    versions.OFFSET_DELETE: _by_partition("topics", "name", "partitions", "partition_index"),
    versions.ALTER_CLIENT_QUOTAS: _of_quotas,
    versions.ALTER_USER_SCRAM_CREDENTIALS: _by_field("results", "user"),
    versions.UPDATE_FEATURES: _by_field("results", "feature"),
}
"""The answers to other APIs have an error code of the whole request only."""
