"""DescribeConfigs (32), versions 1 to 4 (KIP-133, KIP-226: synonyms, KIP-569: types and documentation)."""

from collections.abc import Sequence

from broker_runtime.apis.configs.broker_loggers import describe_loggers
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.metadata.describe_configs import Described, describe_resource
from broker_runtime.slicing.steps import Steps, distinct, each, gathered
from broker_runtime.wire.encoding.encode import MadeItems
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeConfigsRequest, DescribeConfigsResource
from broker_runtime.wire.versions import DESCRIBE_CONFIGS

_OF_BROKER: int = ResourceType.BROKER
_OF_LOGGERS: int = ResourceType.BROKER_LOGGER


def handle(request: DescribeConfigsRequest, call: Call, context: NodeContext) -> Steps[Fields]:
    resources = yield from distinct(request.resources)
    return {"results": MadeItems(resources, lambda resource: _result(resource, request, call, context))}


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call, context: NodeContext
) -> Steps[Fields]:
    with_synonyms = request.include_synonyms
    with_documentation = call.version >= 3 and request.include_documentation
    code: ErrorCode = ErrorCode.NONE
    message: str | None = ""
    entries: list[Fields] = []
    try:
        if call.access is not None:
            call.access.require_config(resource.resource_type, resource.resource_name)
        wanted = resource.configuration_keys
        keys = None if wanted is None else (yield from gathered(wanted))
        if resource.resource_type == _OF_LOGGERS:
            entries = list(describe_loggers(resource.resource_name, keys, context.settings.node_id))
            return _answer(resource, code, message, entries)
        found = yield from describe_resource(
            (resource.resource_type, resource.resource_name),
            keys,
            context.image,
            context.settings,
        )
        note_on = context.note_on_config if with_documentation and resource.resource_type == _OF_BROKER else _none
        entries = yield from each(
            found, lambda entry: _entry(entry, with_synonyms, with_documentation, note_on(entry.name))
        )
    except KafkaError as error:
        code, message = error.code, error.message
        call.error = call.error or code
    return _answer(resource, code, message, entries)


def _answer(
    resource: DescribeConfigsResource, code: ErrorCode, message: str | None, entries: Sequence[Fields]
) -> Fields:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": entries,
    }


def _none(_: str) -> None:
    return None


def _entry(entry: Described, with_synonyms: bool, with_documentation: bool, note: str | None) -> Fields:
    text = entry.key.doc if note is None else f"{entry.key.doc} {note}"
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.key.sensitive,
        "synonyms": [{"name": s.name, "value": s.value, "source": s.source} for s in entry.synonyms]
        if with_synonyms
        else [],
        "config_type": entry.key.type,
        "documentation": text if with_documentation else None,
    }


API = ApiSpec(key=DESCRIBE_CONFIGS, name="DescribeConfigs", versions=(1, 4), handle=handle)
