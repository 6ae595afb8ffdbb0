"""A broker's part of AlterConfigs and IncrementalAlterConfigs: its own listeners (KIP-226), and levels of its loggers.

Only the broker itself can determine whether it can open a port, or use a file of certificates. So a change of its
listeners, and of their keys and certificates, must be sent to that broker, as Kafka's own clients do. The broker checks
the certificates, opens the new listeners, forwards the change to the controller, and answers when it is in force.
Logger levels (KIP-412) exist only in this process; the controller does not store them. All other changes are forwarded
unchanged.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Protocol

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext, ControllerContext
from broker_runtime.apis.request.forwarding import forwarded, to_controller
from broker_runtime.config import BrokerConfig
from broker_runtime.config.in_force.dynamic_listeners import concerns_listeners
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen, counted, each
from broker_runtime.wire.messages import Entity, Fields, decode_response_in_steps, encode_request_in_steps
from broker_runtime.wire.reply import joined


class Resource(Protocol):
    """A resource of an AlterConfigs or IncrementalAlterConfigs request."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


AlterOne = Callable[[Any, MetadataImage], Sequence[MetadataRecord]]


class AlterLoggers(Protocol):
    """A function that changes the levels of a broker's loggers, as `broker_loggers.alter_loggers` does."""

    def __call__(self, resource: Any, node_id: int, /, *, validate_only: bool) -> None: ...


def with_own_listeners(
    api: ApiSpec[ControllerContext],
    alter: AlterOne,
    answer_to: Callable[..., Fields],
    alter_loggers: AlterLoggers | None = None,
) -> ApiSpec[BrokerContext]:
    """Return the variant of `api` that brokers offer, which also changes the broker's own listeners.

    `alter` decides about one resource as the controller does, and `answer_to` creates its answer. Without
    `alter_loggers`, changes of loggers are forwarded to the controller, which refuses them.
    """

    def instead(request: Any, call: Call, context: BrokerContext) -> Steps[Awaitable[Fields] | None]:
        here: dict[tuple[int, str], KafkaError | None] = {}
        access = call.access
        if access is not None and (yield from chosen(request.resources, _is_of_this_node)) and not access.cluster():
            # The controller refuses them, and decides about the other resources.
            return None
        if alter_loggers is not None:
            here = yield from _loggers_altered(request, context.settings.node_id, alter_loggers)
        of_brokers = yield from chosen(request.resources, _is_a_brokers)
        mine, node_name = [], str(context.settings.node_id)
        for resource in of_brokers:
            if _changes_listeners(resource, context.image, alter):
                if resource.resource_name == node_name:
                    mine.append(resource)
                else:
                    here[resource.resource_type, resource.resource_name] = _of_another(resource)
            yield
        if not mine and not here:
            return None
        # The controller refuses a resource that is named twice.
        only = mine[0] if len(mine) == 1 else None
        return _answer(request, call, context, _Change(only, alter, here, answer_to))

    return forwarded(api, instead)


def _is_of_this_node(resource: Resource) -> bool:
    return resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def _loggers_altered(
    request: Any, node_id: int, alter: AlterLoggers
) -> Steps[dict[tuple[int, str], KafkaError | None]]:
    """Change logger levels. Returns None or the error for each resource."""
    loggers = yield from chosen(request.resources, lambda each: each.resource_type == ResourceType.BROKER_LOGGER)
    counts = yield from counted(logger.resource_name for logger in loggers)
    found: dict[tuple[int, str], KafkaError | None] = {}
    for logger in loggers:
        problem = None
        try:
            if counts[logger.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter(logger, node_id, validate_only=request.validate_only)
        except KafkaError as error:
            problem = detached(error)
        found[logger.resource_type, logger.resource_name] = problem
        yield
    return found


class _Change:
    """The state of one request: the resource of this broker, and the results that this broker decides itself."""

    def __init__(
        self,
        mine: Resource | None,
        alter: AlterOne,
        here: dict[tuple[int, str], KafkaError | None],
        answer_to: Callable[..., Fields],
    ) -> None:
        self.mine, self.alter, self.here, self.answer_to = mine, alter, here, answer_to
        """`here` has this broker's results by type and name of the resource. None means that the change was made."""
        self.stored = False
        """Whether the change of this broker is durable, or would be if the request were not only validated."""

    def is_answered(self, resource: Resource) -> bool:
        return (resource.resource_type, resource.resource_name) in self.here


def _is_a_brokers(resource: Resource) -> bool:
    return resource.resource_type == ResourceType.BROKER and bool(resource.resource_name)


def _of_another(resource: Resource) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"send changes of the listeners of broker {resource.resource_name} to that broker, because it has to open "
        "them, and to read their certificates",
    )


def _changes_listeners(resource: Resource, image: MetadataImage, alter: AlterOne) -> bool:
    try:
        records = alter(resource, image)
    except KafkaError:
        # The controller refuses it with the same error.
        return False
    return any(isinstance(record, ConfigRecord) and concerns_listeners(record.key) for record in records)


async def _answer(request: Any, call: Call, context: BrokerContext, change: _Change) -> Fields:
    mine = change.mine
    if mine is None:
        return await _forwarded(request, call, context, change)

    def altered() -> Mapping[str, str]:
        own = dict(context.image.configs.of_broker(context.settings.node_id))
        for record in change.alter(mine, context.image):
            assert isinstance(record, ConfigRecord)
            own.pop(record.key, None)
            if record.value is not None:
                own[record.key] = record.value
        _check_room_for_brokers(own, context)
        return own

    async with AsyncExitStack() as until_stored:
        try:
            own = await until_stored.enter_async_context(context.listeners.opening(altered))
        except KafkaError as error:
            change.here[mine.resource_type, mine.resource_name] = detached(error)
        answer = await _forwarded(request, call, context, change)
        if change.stored and not request.validate_only:
            await context.listeners.in_force(own, context.settings.config.request_timeout_ms / 1000)
    return answer


def _check_room_for_brokers(own: Mapping[str, str], context: BrokerContext) -> None:
    """Check that the brokers' listener allows enough connections if clients have to share it.

    If the brokers' listener is the only one left, limits for clients apply to it. Raises KafkaError.
    """
    default = context.image.configs.of_broker(None)
    before = effective_config(context.settings, default, context.image.configs.of_broker(context.settings.node_id))
    after = effective_config(context.settings, default, own)
    if len(before.listeners.names) == 1 or len(after.listeners.names) > 1:
        return
    key, name, needed = BrokerConfig.max_connections, context.settings.inter_broker_listener, len(context.image.brokers)
    allowed = after.per_listener(key).get(name, after.config.max_connections)
    if allowed < needed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"listeners: {name} would be the only listener, and clients would share its {key.name} of {allowed} "
            f"connections with {needed} brokers; raise the limit to {needed} or more first",
        )


async def _forwarded(request: Any, call: Call, context: BrokerContext, change: _Change) -> Fields:
    """Forward the other resources. Returns the controller's and this broker's results in the order of the request."""
    left = await call.completion.slices.finish(
        chosen(request.resources, lambda resource: not change.is_answered(resource))
    )
    forwarded_answers: Sequence[Entity] = ()
    if left:
        key, version = call.api.key, call.version
        body = await call.completion.slices.finish(_encoded(key, version, left, validate_only=request.validate_only))
        answer = await to_controller(memoryview(body), call, context.controller)
        decoded: Entity = await call.completion.slices.finish(decode_response_in_steps(key, version, joined(answer)))
        forwarded_answers = decoded.responses
    return await call.completion.slices.finish(_merged(request, forwarded_answers, change))


def _encoded(key: int, version: int, resources: Sequence[Any], *, validate_only: bool) -> Steps[bytes]:
    content: list[Fields] = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        configs = yield from each(resource.configs, asdict)
        content.append({"resource_type": kind, "resource_name": name, "configs": configs})
        yield
    return (yield from encode_request_in_steps(key, version, {"resources": content, "validate_only": validate_only}))


def _merged(request: Any, forwarded_answers: Sequence[Entity], change: _Change) -> Steps[Fields]:
    mine, answers = change.mine, dict[tuple[int, str], Fields]()
    for answer in forwarded_answers:
        at = answer.resource_type, answer.resource_name
        answers[at] = asdict(answer)
        if mine is not None and at == (mine.resource_type, mine.resource_name):
            change.stored = change.stored or answer.error_code == ErrorCode.NONE
        yield
    responses = []
    for resource in request.resources:
        at = resource.resource_type, resource.resource_name
        responses.append(change.answer_to(resource, change.here[at]) if at in change.here else answers[at])
        yield
    return {"responses": responses}
