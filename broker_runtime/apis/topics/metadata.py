"""Metadata (3), versions 0 to 13: brokers, controller and topics as the listener's clients should see them.

- Fenced brokers are omitted, as are brokers without the listener that received the request. Partitions with such a
  leader have LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND.
- An unknown topic is created if the request and auto.create.topics.enable allow it. As in Kafka, the answer does not
  wait for the creation: it contains UNKNOWN_TOPIC_OR_PARTITION, and clients retry.
- The topics of coordinators are internal: consumers that subscribe by a pattern ignore them. Only coordinators create
  them, with a special configuration; a Metadata request does not.
- If a request asks for authorized operations and the broker has no authorizer, the answer has all.
- With an authorizer, the answer for all topics is made for each client, and has the topics that it may describe.
"""

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.answer_cache import Body
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from broker_runtime.apis.request.call import Call, check_response
from broker_runtime.apis.request.context import ZERO_UUID, ApiSpec, BrokerContext
from broker_runtime.apis.request.forwarding import client_of
from broker_runtime.apis.topics.packed_topics import Operations, PackedTopics, offline, visible_leader
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from broker_runtime.security.acls.model import CLUSTER_NAME, AclOperation, AclResource
from broker_runtime.slicing.steps import Steps, chosen, distinct, each, gathered, in_order
from broker_runtime.wire.encoding.encode import Pieces
from broker_runtime.wire.messages import Fields, encode_response_body, with_throttle_time
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.requests import MetadataRequest, MetadataRequestTopic
from broker_runtime.wire.versions import METADATA

_NO_CLUSTER: Fields = {
    "brokers": [],
    "cluster_id": None,
    "controller_id": -1,
    "cluster_authorized_operations": NOT_ASKED,
}
_MAY_REFUSE_CREATION_SINCE = 4
_ID_SINCE = 10
_BY_ID_SINCE = 12
API_VERSION_MAX = 13
_CREATED_MAX = 100
"""Maximum number of topics that one request creates. A client that names more retries."""
_ONE_CHUNK_BYTES_MAX = 65_536


def handle(request: MetadataRequest, call: Call, context: BrokerContext) -> Reply | Steps[Fields | Reply]:
    wanted, access = request.topics, call.access
    if access is not None and (wanted is None or (call.version == 0 and not wanted)):
        return _about_visible(request, access, call, context)
    if wanted is None or (call.version == 0 and not wanted):
        asked = _operations(request)
        return context.all_topics.reply(
            call, context.image, lambda: _about_all(call, context, asked), _ASKED.index(asked)
        )
    return _about(request, wanted, call, context)


def _operations(request: MetadataRequest) -> tuple[int, int]:
    """Return the authorized operations on each topic and on the cluster, if requested.

    Some versions lack the fields.
    """
    of_topics = getattr(request, "include_topic_authorized_operations", False)
    of_cluster = getattr(request, "include_cluster_authorized_operations", False)
    return ON_TOPIC if of_topics else NOT_ASKED, ON_CLUSTER if of_cluster else NOT_ASKED


def _allowed_operations(request: MetadataRequest, access: Access | None) -> tuple[Operations, int]:
    """Return the requested operations on topics and on the cluster that the client may perform."""
    on_topics, on_cluster = _operations(request)
    if access is None:
        return on_topics, on_cluster
    if on_cluster != NOT_ASKED:
        may_describe = access.cluster(AclOperation.DESCRIBE, hides=True)
        on_cluster = access.operations(AclResource.CLUSTER, CLUSTER_NAME, on_cluster) if may_describe else 0
    if on_topics == NOT_ASKED:
        return on_topics, on_cluster
    return (lambda name: access.operations(AclResource.TOPIC, name, ON_TOPIC)), on_cluster


_ASKED = [(topics, cluster) for topics in (NOT_ASKED, ON_TOPIC) for cluster in (NOT_ASKED, ON_CLUSTER)]


def _about_visible(request: MetadataRequest, access: Access, call: Call, context: BrokerContext) -> Steps[Reply]:
    """Answer with all topics that the client may describe."""
    topics = context.image.topics
    visible = yield from chosen(list(topics), lambda name: access.topic(name, hides=True))
    on_topics, on_cluster = _allowed_operations(request, access)
    packed, pieces = (
        PackedTopics(context.image, call.listener, call.version, on_topics),
        Pieces(partial(check_response, call)),
    )
    count = 0
    for name in (yield from in_order(visible)):
        topic = topics.get(name)
        if topic is not None:
            count += 1
            yield from packed.pack(topic, pieces)
    call.error = packed.error
    return call.packed_of(_with_brokers(packed, count, pieces, call, context, on_cluster))


def _about_all(call: Call, context: BrokerContext, asked: tuple[int, int]) -> Steps[Body]:
    topics, (on_topics, on_cluster) = context.image.topics, asked
    names = yield from in_order(list(topics))
    packed = PackedTopics(context.image, call.listener, call.version, on_topics)
    pieces = Pieces(call.completion.limits.check_response)
    count = 0
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            count += 1
            yield from packed.pack(topic, pieces)
    return _with_brokers(packed, count, pieces, call, context, on_cluster), packed.error


def _with_brokers(
    packed: PackedTopics, count: int, pieces: Pieces, call: Call, context: BrokerContext, on_cluster: int
) -> Sequence[bytes]:
    """Return the pieces of the whole body; `pieces` has the topics."""
    nothing = encode_response_body(METADATA, call.version, _answer((), call, context, on_cluster))
    head, end = packed.around(nothing, count)
    found = [head, *pieces.all(), end]
    return found if pieces.size > _ONE_CHUNK_BYTES_MAX else [b"".join(found)]


def _about(
    request: MetadataRequest, wanted: Sequence[MetadataRequestTopic], call: Call, context: BrokerContext
) -> Steps[Fields | Reply]:
    image, version = context.image, call.version
    if (yield from chosen(wanted, lambda item: _cannot_be_found(item, version))):
        refused = yield from each(wanted, _refused)
        return {**_NO_CLUSTER, "topics": refused, "error_code": ErrorCode.INVALID_REQUEST}
    may_not: Collection[str] = ()
    # As in Kafka, a topic that is named several times gets one result.
    wanted = yield from distinct(wanted)
    access = call.access
    allowed = version < _MAY_REFUSE_CREATION_SINCE or request.allow_auto_topic_creation
    if allowed and context.settings.config.auto_create_topics_enable:
        missing = yield from chosen(wanted, lambda item: _can_be_created(item, call, image))
        if access is not None and missing:
            missing = yield from chosen(missing, lambda item: access.topic(item.name or "", hides=True))
            if not access.cluster(hides=True):
                denied = yield from chosen(missing, lambda item: not _may_create(item, access))
                may_not = yield from gathered(item.name or "" for item in denied)
                missing = yield from chosen(missing, lambda item: item.name not in may_not)
        if missing:
            names = [item.name or "" for item in missing[:_CREATED_MAX]]
            context.auto_topic_creation.ask_for(names, client_of(call))
    on_topics, on_cluster = _allowed_operations(request, access)
    packed, pieces = (
        PackedTopics(image, call.listener, version, on_topics),
        Pieces(partial(check_response, call)),
    )
    for item in wanted:
        if item.name in may_not:
            pieces.add(packed.denied(item.name, None))
            yield
        else:
            yield from _pack_wanted(item, call, image, packed, pieces)
    call.error = packed.error
    body = _with_brokers(packed, len(wanted), pieces, call, context, on_cluster)
    return call.packed_of(with_throttle_time(METADATA, version, call.throttle_ms, body))


def _pack_wanted(
    item: MetadataRequestTopic, call: Call, image: MetadataImage, packed: PackedTopics, pieces: Pieces
) -> Steps[None]:
    topic_id, name = _id_of(item, call.version), item.name or ""
    topic = image.topics.get(name) if topic_id is None else image.topics.by_id(topic_id)
    access = call.access
    is_named = topic is not None or topic_id is None
    if access is not None and is_named and not access.topic(name if topic is None else topic.name):
        pieces.add(packed.denied(name if topic_id is None else None, topic_id))
    elif topic is not None:
        yield from packed.pack(topic, pieces)
    elif topic_id is not None:
        pieces.add(packed.absent(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
    else:
        pieces.add(packed.absent(name, None, _name_problem(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    yield


def _answer(topics: Sequence[Fields], call: Call, context: BrokerContext, on_cluster: int) -> Fields:
    reachable = [b for b in context.image.brokers.values() if not b.fenced and b.endpoint(call.listener) is not None]
    brokers = [
        {"node_id": broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
        for broker in reachable
        if (endpoint := broker.endpoint(call.listener)) is not None
    ]
    return {
        "brokers": brokers,
        "cluster_id": context.cluster_id,
        "controller_id": min((broker.id for broker in reachable), default=-1),
        "topics": topics,
        "cluster_authorized_operations": on_cluster,
        "error_code": ErrorCode.NONE,
    }


def _cannot_be_found(item: MetadataRequestTopic, version: int) -> bool:
    """Whether the topic cannot be looked up.

    Versions 10 and 11 have a field for the id, but look topics up only by name, as in Kafka.
    """
    has_id = _id_of(item, version) is not None
    return (item.name is None and not has_id) or (has_id and version < _BY_ID_SINCE)


def _refused(item: MetadataRequestTopic) -> Fields:
    return _absent(item.name or "", item.topic_id, ErrorCode.INVALID_REQUEST)


def _can_be_created(item: MetadataRequestTopic, call: Call, image: MetadataImage) -> bool:
    if item.name is None or item.name in image.topics or _id_of(item, call.version) is not None:
        return False
    return item.name not in INTERNAL_TOPICS and _name_problem(item.name) is None


def _may_create(item: MetadataRequestTopic, access: Access) -> bool:
    return access.topic(item.name or "", AclOperation.CREATE)


def _name_problem(name: str) -> ErrorCode | None:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return None


def _id_of(item: MetadataRequestTopic, version: int) -> UUID | None:
    return None if version < _ID_SINCE or item.topic_id == ZERO_UUID else item.topic_id


def _absent(name: str | None, topic_id: object, code: ErrorCode) -> Fields:
    return {
        "error_code": code,
        "name": name if name is not None or topic_id is not None else "",
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
        "topic_authorized_operations": NOT_ASKED,
    }


def partition_fields(
    index: int, part: Partition, listener: str, image: MetadataImage, version: int = API_VERSION_MAX
) -> Fields:
    """Return the fields of a partition in Metadata, as clients of `listener` see the partition."""
    leader, code = visible_leader(part.leader, listener, image, version)
    return {
        "error_code": code,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": part.leader_epoch,
        "replica_nodes": part.replicas,
        "isr_nodes": part.isr,
        "offline_replicas": offline(part.replicas, image),
    }


API = ApiSpec(key=METADATA, name="Metadata", versions=(0, API_VERSION_MAX), handle=handle)
