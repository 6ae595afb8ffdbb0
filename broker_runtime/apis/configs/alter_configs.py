"""AlterConfigs (33), versions 0 to 2 (KIP-133): replaces the whole dynamic configuration of each resource.

This module also has the code that it shares with IncrementalAlterConfigs. Each resource succeeds or fails on its own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.configs import ResourceCapacity, check_count, replace_all
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, counted, drain, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalResource,
)
from broker_runtime.wire.versions import ALTER_CONFIGS

_Request = AlterConfigsRequest | IncrementalAlterConfigsRequest
_Resource = AlterConfigsResource | IncrementalResource
AlterOne = Callable[[Any, MetadataImage], Sequence[ConfigRecord]]


async def handle(request: AlterConfigsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    return await alter_resources(request, call, context, alter)


def alter(resource: AlterConfigsResource, image: MetadataImage) -> Sequence[ConfigRecord]:
    check_count(len(resource.configs))
    configs = [(config.name, config.value) for config in resource.configs]
    return replace_all((resource.resource_type, resource.resource_name), configs, image)


async def alter_resources(
    request: _Request, call: Call, context: ControllerContext, one: AlterOne
) -> Fields | Steps[Fields]:
    access = call.access
    try:
        return {"responses": await context.controller.submit(lambda image: _alter_all(request, image, one, access))}
    except KafkaError as error:
        return _refused(request, error)


def _refused(request: _Request, error: KafkaError) -> Steps[Fields]:
    resources: Iterable[_Resource] = request.resources
    return {"responses": (yield from each(resources, lambda resource: answer_to(resource, error)))}


def _alter_all(
    request: _Request, image: MetadataImage, one: AlterOne, access: Access | None
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    named = ((resource.resource_type, resource.resource_name) for resource in request.resources)
    counts = yield from counted(named)
    records: list[MetadataRecord] = []
    answers = []
    room = ResourceCapacity(image)
    for resource in request.resources:
        at = resource.resource_type, resource.resource_name
        try:
            if access is not None:
                access.require_config(*at)
            if counts[at] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            found = one(resource, image)
            room.take(at, found)
            records += found
        except KafkaError as error:
            answers.append(answer_to(resource, error))
        else:
            answers.append(answer_to(resource, None))
        yield
    yield from drain(counts)
    return ((), answers) if request.validate_only else (records, answers)


def answer_to(resource: _Resource, error: KafkaError | None) -> Fields:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


API = ApiSpec(key=ALTER_CONFIGS, name="AlterConfigs", versions=(0, 2), handle=handle)
