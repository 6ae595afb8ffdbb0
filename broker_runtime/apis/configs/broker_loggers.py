"""The loggers of this process and their levels, for DescribeConfigs and IncrementalAlterConfigs.

They are the ConfigResource BROKER_LOGGER (KIP-412). A change lasts until the process ends, as in Apache Kafka. The
names are those of Python's loggers, and `root`; the levels have Kafka's names. A package without its own logger is also
listed if its modules have loggers: its level applies to all its modules.
"""

import logging
from collections.abc import Collection, Mapping, Sequence, Set

from broker_runtime.controller.configs import Operation, check_count
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.describe_configs import ConfigSource
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterableConfig, IncrementalResource

log = logging.getLogger(__name__)

ROOT = "root"
TRACE = 5
_LEVELS: Mapping[str, int] = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_OPERATIONS = frozenset(int(operation) for operation in Operation)
_UNKNOWN_TYPE = 0
_NAMES_MAX = 1_000
"""Maximum number of loggers in one answer, because libraries may create a logger for each object."""


def describe_loggers(name: str, wanted: Set[str] | None, node_id: int) -> Sequence[Fields]:
    """Describe the loggers in `wanted`, or all if `wanted` is None or empty.

    Raises KafkaError unless `name` is this node's id.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if _node_id(name, "Broker") != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} but received {name}")
    return [_entry(each) for each in _names() if not wanted or each in wanted]


def _entry(name: str) -> Fields:
    return {
        "name": name,
        "value": _shown(_logger(name).getEffectiveLevel()),
        "read_only": False,
        "config_source": ConfigSource.BROKER_LOGGER,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _UNKNOWN_TYPE,
        "documentation": "",
    }


def alter_loggers(resource: IncrementalResource, node_id: int, *, validate_only: bool) -> None:
    """Apply all changes of the loggers' levels in `resource`, or none. Raises KafkaError."""
    if _node_id(resource.resource_name, "Node") != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {resource.resource_name}"
        )
    check_count(len(resource.configs))
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in resource.configs if c.value is None and int(c.config_operation) != Operation.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    known = frozenset(_names())
    levels = {config.name: _wanted_level(config, known) for config in resource.configs}
    if validate_only:
        return
    for name, level in levels.items():
        _logger(name).setLevel(level)
        log.info("logger %s has the level %s now", name, _shown(_logger(name).getEffectiveLevel()))


def _wanted_level(config: AlterableConfig, known: Collection[str]) -> int:
    name, operation = config.name, int(config.config_operation)
    if operation not in (Operation.SET, Operation.DELETE):
        if operation not in _OPERATIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
        what = f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, what)
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.DELETE:
        if name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        return logging.NOTSET
    if config.value is None or config.value not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. Valid log "
            f"levels are {', '.join(sorted(_LEVELS))}",
        )
    return _LEVELS[config.value]


def _node_id(name: str, what: str) -> int:
    """Parse a node id. Only one spelling is valid, so that a request cannot name the same loggers twice.

    Raises KafkaError.
    """
    try:
        if name != str(int(name)):
            raise ValueError(name)
        return int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}") from None


def _names() -> Sequence[str]:
    """Names of the loggers: `root` first, then in alphabetical order."""
    return [ROOT, *sorted(logging.root.manager.loggerDict)[:_NAMES_MAX]]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _shown(level: int) -> str:
    """Return the name of the level, or of the next lower one."""
    return max((number, name) for name, number in _LEVELS.items() if number <= max(level, TRACE))[1]
