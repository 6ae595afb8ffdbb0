"""Metadata (3), versions 0 to 12: brokers, controller and topics as the listener's clients should see them.

- Fenced brokers are left out, and so are brokers without the listener that was asked (LISTENER_NOT_FOUND).
- An unknown topic is created when the request and auto.create.topics.enable allow it; the answer waits for it.
- Authorized operations are not implemented: always the "not asked" value.
"""

from broker_runtime.apis.context import ZERO_UUID, ApiSpec, Node, RequestContext
from broker_runtime.controller.image import MetadataImage, Partition, Topic
from broker_runtime.controller.topic_names import check_topic_name
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import CREATE_TOPICS, METADATA

_OPERATIONS_NOT_ASKED = -(2**31)
_NO_CLUSTER: Fields = {
    "brokers": [],
    "cluster_id": None,
    "controller_id": -1,
    "cluster_authorized_operations": _OPERATIONS_NOT_ASKED,
}
_BY_ID_SINCE = 12


async def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    wanted = request.topics
    if ctx.version == 0 and wanted == ():
        wanted = None
    if any(_cannot_be_found(item, ctx.version) for item in wanted or ()):
        return {**_NO_CLUSTER, "topics": [_refused(item) for item in wanted]}
    if wanted is None:
        topics = [_topic(topic, ctx, node.image) for _, topic in sorted(node.image.topics.items())]
    else:
        may_create = getattr(request, "allow_auto_topic_creation", True)
        # Once for each, as in Kafka, however often it is named.
        topics = [await _wanted_topic(item, may_create, ctx, node) for item in dict.fromkeys(wanted)]
    reachable = [b for b in node.image.brokers.values() if not b.fenced and b.endpoint(ctx.listener) is not None]
    brokers = [
        {"node_id": broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
        for broker in reachable
        if (endpoint := broker.endpoint(ctx.listener)) is not None
    ]
    return {
        "brokers": brokers,
        "cluster_id": node.cluster_id,
        "controller_id": min((broker.id for broker in reachable), default=-1),
        "topics": topics,
        "cluster_authorized_operations": _OPERATIONS_NOT_ASKED,
    }


def _cannot_be_found(item: Entity, version: int) -> bool:
    """Versions 10 and 11 have a field for the id, but look topics up by name only, as in Kafka."""
    has_id = getattr(item, "topic_id", None) not in (None, ZERO_UUID)
    return (item.name is None and not has_id) or (has_id and version < _BY_ID_SINCE)


def _refused(item: Entity) -> Fields:
    return _absent(item.name or "", item.topic_id, ErrorCode.INVALID_REQUEST)


async def _wanted_topic(item: Entity, may_create: bool, ctx: RequestContext, node: Node) -> Fields:
    topic_id = getattr(item, "topic_id", None)
    name = item.name
    if topic_id is not None and topic_id != ZERO_UUID:
        known = node.image.topic_by_id(topic_id)
        if known is None:
            return _absent(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _topic(known, ctx, node.image)
    topic = node.image.topics.get(name)
    if topic is None:
        try:
            check_topic_name(name)
            if may_create and node.settings.flag("auto.create.topics.enable"):
                topic = await _create(name, node)
        except KafkaError as error:
            return _absent(name, None, error.code)
    if topic is None:
        return _absent(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(topic, ctx, node.image)


async def _create(name: str, node: Node) -> Topic | None:
    """Ask the controller for the topic with the broker's defaults and wait until this node has heard of it."""
    asked = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": (), "configs": ()}
    answer = await node.send_to_controller(
        CREATE_TOPICS,
        7,
        {"topics": [asked], "timeout": node.settings.integer("request.timeout.ms"), "validate_only": False},
    )
    code = ErrorCode(int(answer.topics[0].error_code))
    if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(code, answer.topics[0].error_message or "")
    await node.wait_until(lambda image: name in image.topics)
    return node.image.topics.get(name)


def _absent(name: str | None, topic_id: object, code: ErrorCode) -> Fields:
    return {
        "error_code": code,
        "name": name if name is not None or topic_id is not None else "",
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": _OPERATIONS_NOT_ASKED,
    }


def _topic(topic: Topic, ctx: RequestContext, image: MetadataImage) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": False,
        "partitions": [_partition(index, part, ctx, image) for index, part in sorted(topic.partitions.items())],
        "topic_authorized_operations": _OPERATIONS_NOT_ASKED,
    }


def _partition(index: int, part: Partition, ctx: RequestContext, image: MetadataImage) -> Fields:
    leader = part.leader
    code = ErrorCode.NONE
    broker = image.brokers.get(leader)
    if broker is None or broker.fenced:
        leader, code = -1, ErrorCode.LEADER_NOT_AVAILABLE
    elif broker.endpoint(ctx.listener) is None:
        leader = -1
        code = ErrorCode.LISTENER_NOT_FOUND if ctx.version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    return {
        "error_code": code,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": part.leader_epoch,
        "replica_nodes": part.replicas,
        "isr_nodes": part.isr,
        "offline_replicas": [r for r in part.replicas if (b := image.brokers.get(r)) is None or b.fenced],
    }


API = ApiSpec(key=METADATA, name="Metadata", versions=(0, 12), handle=handle)
