"""IncrementalAlterConfigs (44), versions 0 to 1 (KIP-339): sets, deletes, appends and subtracts single keys."""

from collections.abc import Sequence

from broker_runtime.apis.configs.alter_configs import alter_resources
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.configs import Change, alter_incrementally, check_count
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import IncrementalAlterConfigsRequest, IncrementalResource
from broker_runtime.wire.versions import INCREMENTAL_ALTER_CONFIGS


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call, context: ControllerContext
) -> Fields | Steps[Fields]:
    return await alter_resources(request, call, context, alter)


def alter(resource: IncrementalResource, image: MetadataImage) -> Sequence[ConfigRecord]:
    check_count(len(resource.configs))
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    return alter_incrementally((resource.resource_type, resource.resource_name), changes, image)


API = ApiSpec(
    key=INCREMENTAL_ALTER_CONFIGS,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    handle=handle,
)
