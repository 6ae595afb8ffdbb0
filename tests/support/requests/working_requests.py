"""Large requests that are not refused: a node does all of the work that they ask for.

Requests of `filled_requests` are refused early, because most of their names do not exist. Each of these requests is
made several times, with other names each time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.wire import versions
from broker_runtime.wire.messages import encode_request_body
from broker_runtime.wire.protocol_versions import FEATURES
from tests.simulation.measured_node import PARTITIONS, TOPIC

WORKING_NODE: Mapping[str, str] = {"auto.create.topics.enable": "true"}
"""The properties of the node that serves them."""
_TIMEOUT = timedelta(minutes=1)
_SET, _APPEND = 0, 2
_TOPICS = 2_000
_NAMES = {api.key: api.name for api in BROKER_APIS}

_Content = Callable[[int], dict[str, Any]]
"""Makes the content of a request; the number counts its repetitions."""


@dataclass(frozen=True, slots=True)
class WorkingRequest:
    """A large request; `what` describes its content."""

    key: int
    version: int
    what: str
    content: _Content

    @property
    def api(self) -> str:
        return _NAMES[self.key]

    def body(self, time: int) -> bytes:
        return encode_request_body(self.key, self.version, self.content(time))


def _created(time: int) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": f"made-{time}-{number}",
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": (),
                "configs": (),
            }
            for number in range(_TOPICS)
        ],
        "timeout": _TIMEOUT,
        "validate_only": False,
    }


def _assigned(time: int) -> dict[str, Any]:
    assignments = [{"partition_index": index, "broker_ids": (1,)} for index in range(300)]
    topic = {"name": f"assigned-{time}", "num_partitions": -1, "replication_factor": -1, "configs": ()}
    return {"topics": [topic | {"assignments": assignments}], "timeout": _TIMEOUT, "validate_only": False}


def _more_partitions(time: int) -> dict[str, Any]:
    topic = {"name": f"assigned-{time}", "count": 600, "assignments": None}
    return {"topics": [topic], "timeout": _TIMEOUT, "validate_only": False}


def _deleted(time: int) -> dict[str, Any]:
    names = [f"made-{time}-{number}" for number in range(_TOPICS)]
    return {"topics": [{"name": name, "topic_id": None} for name in names], "timeout": _TIMEOUT}


def _looked_up(time: int) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": None, "name": f"auto-{time}-{number}"} for number in range(100)],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }


def _quotas(entity_type: str, key: str, name: Callable[[int], str]) -> _Content:
    def content(time: int) -> dict[str, Any]:
        entries = [
            {
                "entity": [{"entity_type": entity_type, "entity_name": name(number)}],
                "ops": [{"key": key, "value": 100.0 + time, "remove": False}],
            }
            for number in range(10_000)
        ]
        return {"entries": entries, "validate_only": False}

    return content


def _resource(kind: int, name: str, configs: Mapping[str, str]) -> dict[str, Any]:
    changes = [{"name": key, "config_operation": _SET, "value": value} for key, value in configs.items()]
    return {"resource_type": int(kind), "resource_name": name, "configs": changes}


def _topic_configs(time: int) -> Sequence[dict[str, Any]]:
    values = {"retention.ms": str(1_000_000 + time), "min.insync.replicas": "1"}
    return [_resource(ResourceType.TOPIC, f"made-{time}-{number}", values) for number in range(_TOPICS)]


def _own_logger(time: int) -> dict[str, Any]:
    """A request in which the broker changes its logger itself, and forwards the rest, which the controller refuses."""
    own = _resource(ResourceType.BROKER_LOGGER, "1", {"root": "WARN"})
    one = _resource(ResourceType.TOPIC, TOPIC, {f"unknown.key.{number}": "x" for number in range(20_000)})
    others = [_resource(ResourceType.TOPIC, f"none-{number}", {}) for number in range(20_000)]
    return {"resources": [own, one, *others], "validate_only": False}


def _cluster_rules(time: int) -> dict[str, Any]:
    unclean = {"unclean.leader.election.enable": "false" if time % 2 else "true"}
    return {"resources": [_resource(ResourceType.BROKER, "", unclean)], "validate_only": False}


def _throttled(time: int) -> dict[str, Any]:
    """A list with the maximum number of items of a value."""
    replicas = ",".join(f"{number}:1" for number in range(time, time + 4_500))
    resource = _resource(ResourceType.TOPIC, TOPIC, {"leader.replication.throttled.replicas": replicas})
    resource["configs"][0]["config_operation"] = _APPEND
    return {"resources": [resource], "validate_only": False}


def _reassigned(time: int) -> dict[str, Any]:
    partitions = [{"partition_index": index, "replicas": (1,)} for index in range(PARTITIONS)]
    return {"topics": [{"name": TOPIC, "partitions": partitions}], "timeout": _TIMEOUT}


def _features(time: int) -> dict[str, Any]:
    name, feature = next(iter(FEATURES.items()))
    update = {"feature": name, "max_version_level": feature.highest, "upgrade_type": 1}
    return {"timeout": _TIMEOUT, "feature_updates": [update] * 50_000, "validate_only": False}


def _incremental(what: str, content: _Content) -> WorkingRequest:
    return WorkingRequest(versions.INCREMENTAL_ALTER_CONFIGS, 1, what, content)


WORKING_REQUESTS: Sequence[WorkingRequest] = (
    WorkingRequest(versions.CREATE_TOPICS, 7, "2,000 topics", _created),
    WorkingRequest(versions.CREATE_TOPICS, 7, "a topic with 300 assignments", _assigned),
    WorkingRequest(versions.CREATE_PARTITIONS, 3, "300 more partitions", _more_partitions),
    WorkingRequest(versions.METADATA, 12, "100 topics that it creates", _looked_up),
    _incremental("2 keys of 2,000 topics", lambda time: {"resources": _topic_configs(time), "validate_only": False}),
    _incremental("a list of 4,500 items", _throttled),
    _incremental("the broker's logger, 20,000 keys of a topic, and 20,000 other topics", _own_logger),
    _incremental("unclean elections of the whole cluster", _cluster_rules),
    WorkingRequest(
        versions.ALTER_CLIENT_QUOTAS,
        1,
        "10,000 client ids",
        _quotas("client-id", "producer_byte_rate", lambda number: f"client-{number}"),
    ),
    WorkingRequest(
        versions.ALTER_CLIENT_QUOTAS,
        1,
        "10,000 addresses",
        _quotas("ip", "connection_creation_rate", lambda number: f"10.1.{number // 256}.{number % 256}"),
    ),
    WorkingRequest(versions.ALTER_PARTITION_REASSIGNMENTS, 0, "1,000 partitions", _reassigned),
    WorkingRequest(versions.UPDATE_FEATURES, 2, "50,000 updates", _features),
    WorkingRequest(
        versions.DELETE_TOPICS,
        6,
        "2,000 topics",
        _deleted,
    ),
)
"""Working requests in their order: later ones name what earlier ones have made."""
