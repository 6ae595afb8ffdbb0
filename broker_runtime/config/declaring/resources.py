"""The limit of resources that exist only by being configured: groups and client metrics subscriptions. Pure."""

from broker_runtime.config.declaring.allowed import at_least
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import Key, Type


class ResourcesConfig(Config):
    """The controller keeps their configurations in memory and in its journal."""

    sluicegate_config_resources_max: Key[int] = static(
        "sluicegate.config.resources.max",
        Type.INT,
        10_000,
        "Groups that may have their own configuration; more are refused (POLICY_VIOLATION). The limit also "
        "applies to client metrics subscriptions; their maximum is 100.",
        at_least(0),
    )
