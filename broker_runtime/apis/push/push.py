"""The push protocol on the connections of clients (decision 35): registrations, and answers to the coordinator's calls.

Frames of the push protocol have no header and no versions. Other frames go to the dispatcher. Each frame becomes a
`Call` with the same completion as those of the dispatcher. The coordinator's calls are sent between pending answers of
the connection. Only the answer to a registration comes before them: it is the first frame that a consumer receives.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from broker_runtime.apis.groups.find_coordinator import coordinator_of
from broker_runtime.apis.push.push_apis import PUSH_APIS
from broker_runtime.apis.push.push_callee import Callee, Outgoing, known_brokers, nothing
from broker_runtime.apis.request.access import WHY
from broker_runtime.apis.request.call import Call, Completion
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.push.answers import Answer, connection_ended, ping_answered, start_answered, stop_answered
from broker_runtime.groups.push.offsets import Consumed
from broker_runtime.groups.push.registering import register
from broker_runtime.groups.push.registration import ConsumerRegistration
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.push.state.decided import Decided
from broker_runtime.groups.push.state.subscription import parse_topic_count
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, at_once, each
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from broker_runtime.wire.push_frames import UnfitError, message_in_steps, partition_number, read_message
from broker_runtime.wire.reply import NO_REPLY, PendingReply, Reply
from kafka_bytes import own_keys
from kafka_bytes.own_keys import type_of
from kafka_bytes.push import layouts
from kafka_bytes.push.layouts import Layout
from kafka_bytes.push.messages import (
    NO_COORDINATOR,
    ClusterMetadataResponse,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StopFetcherResponse,
)

_AT_ONCE_BYTES_MAX = 4_096
"""Maximum size of an answer that is read at once, about a hundred offsets. A larger one is read in slices."""
_BODY_AT = 2
"""Position of the body, which follows the request type id."""
_Decide = Callable[[GroupsState, PushEnvironment, Answer], Decided]
_ANSWERS: Mapping[int, tuple[Layout[Any], _Decide]] = {
    own_keys.PING: (layouts.PING_RESPONSE, ping_answered),
    own_keys.STOP_FETCHER: (layouts.STOP_FETCHER_RESPONSE, stop_answered),
    own_keys.START_FETCHER: (layouts.START_FETCHER_RESPONSE, start_answered),
}


class PushFrames:
    """Handles frames of the push protocol, and passes frames of other protocols to `others`.

    Owns the registered consumers by connection. `completion` is notified of each frame, as of each request of the
    dispatcher.
    """

    def __init__(self, context: BrokerContext, others: FrameHandler, completion: Completion) -> None:
        self._context = context
        self._others = others
        self._completion = completion
        self._outgoing = Outgoing()
        self._callees: dict[int, Callee] = {}
        """Consumers by connection, from the request to register until it is refused or the connection ends."""

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Handle a frame of the push protocol, see `wire.handler.FrameHandler`."""
        kind = type_of(frame)
        if kind is None:
            return self._others(frame, connection)
        completion, callee = self._completion, self._callees.get(connection.id)
        call = Call(PUSH_APIS[kind], 0, 0, None if callee is None else callee.consumer_id, connection, completion)
        call.request_bytes = len(frame)
        call.received_s = completion.now()
        try:
            if completion.requests is not None:
                completion.requests.begun(call, frame, _BODY_AT)
            reply = self._reply(kind, frame, call, callee)
        except ProtocolError as error:
            call.record_refusal(error.kind)
            raise
        except Exception:
            call.record_refusal("handler-failed")
            raise
        if isinstance(reply, tuple):
            call.record_answer(reply)
        return reply

    def _reply(self, kind: int, frame: memoryview, call: Call, callee: Callee | None) -> Reply | PendingReply:
        if kind == own_keys.CLUSTER_METADATA:
            return self._cluster_metadata(frame, call)
        if kind == own_keys.REGISTER_CONSUMER:
            return self._register(frame, call, callee)
        return self._take_answer(*_ANSWERS[kind], frame, call, callee)

    def _cluster_metadata(self, frame: memoryview, call: Call) -> Reply:
        """Return the brokers and the group's coordinator.

        A request without a group gets this broker as its coordinator, and the client tries the next broker if that
        fails.
        """
        context, listener = self._context, call.listener
        code, coordinator = ErrorCode.NONE, context.settings.node_id
        try:
            group_id = read_message(layouts.CLUSTER_METADATA_REQUEST, frame).group_id
        except UnfitError:
            group_id = ""
        if group_id == "":
            code, coordinator = ErrorCode.INVALID_GROUP_ID, NO_COORDINATOR
        elif group_id is not None:
            found = coordinator_of(group_id, call, context)
            code, coordinator = found.code, found.node
        brokers = known_brokers(context.image, listener)
        call.error = code
        return (layouts.CLUSTER_METADATA_RESPONSE.write(ClusterMetadataResponse(code, coordinator, brokers)),)

    def _register(self, frame: memoryview, call: Call, registered: Callee | None) -> Reply | PendingReply:
        try:
            message = read_message(layouts.REGISTER_CONSUMER_REQUEST, frame)
        except UnfitError as error:
            is_group = error.field == "group_id"
            return _registered(call, ErrorCode.INVALID_GROUP_ID if is_group else ErrorCode.INVALID_REQUEST)
        if registered is not None:
            return _registered(call, ErrorCode.INVALID_REQUEST)
        if not message.group_id:
            # An empty group id is invalid, whichever broker coordinates it.
            return _registered(call, ErrorCode.INVALID_GROUP_ID)
        denial = _denial(call, message)
        if denial:
            return _registered(call, denial)
        connection, call.client_id = call.connection, message.consumer_id
        topic_filter = None if call.access is None else call.access.topic_filter
        asked = ConsumerRegistration(*message, client_host=f"/{connection.peer[0]}")
        # A session timeout below the minimum is refused for that reason, and not because the registration has waited.
        patience_ms = max(asked.session_timeout_ms, self._context.settings.config.group_min_session_timeout_ms)
        given_up_s = self._completion.now() + patience_ms / 1000

        def decide(state: GroupsState, environment: PushEnvironment) -> tuple[Sequence[GroupRecord], None]:
            if self._callees.get(connection.id) is not callee or self._completion.now() > given_up_s:
                # The client has given up. Writing its registration and its departure would delay other requests.
                raise KafkaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the registration waited longer than the client's timeout"
                )
            return register(state, environment, asked, connection.id, topic_filter)

        callee = Callee(asked.group_id, asked.consumer_id, connection, self._context.image, self._outgoing)
        try:
            answer = self._context.groups.term_of(asked.group_id).enqueue(decide)
        except KafkaError as error:
            return _registered(call, error.code)
        self._callees[connection.id] = callee
        self._context.groups.callers.add(connection.id, callee)
        callee.ended = partial(self._ended, callee)
        connection.closed.add(callee.ended)
        call.handled_s = self._completion.now()
        answer.add_done_callback(partial(self._registration_decided, callee, call))
        return call.later()

    def _registration_decided(self, callee: Callee, call: Call, answer: asyncio.Future[None]) -> None:
        error = answer.exception()
        if error is None:
            call.complete(_registered(call, ErrorCode.NONE))
            # The reply may be sent together with other pending replies, at the end of this iteration.
            answer.get_loop().call_soon(callee.release)
            return
        callee.connection.closed.remove(callee.ended)
        self._ended(callee)
        # The coordinator has already logged an error that is not a KafkaError.
        call.complete(_registered(call, error.code) if isinstance(error, KafkaError) else None)

    def _take_answer(
        self, layout: Layout[Any], decide: _Decide, frame: memoryview, call: Call, callee: Callee | None
    ) -> Reply | PendingReply:
        if callee is None:
            raise ProtocolError(
                "push-not-registered", "a response to a call arrived, but no consumer has registered on this connection"
            )
        access = call.access
        if access is not None and not access.group(callee.group_id):
            # An ACL has changed. The next registration is answered with the error.
            raise ProtocolError("not-authorized", f"{call.api.name}: {WHY[ErrorCode.GROUP_AUTHORIZATION_FAILED]}")
        if len(frame) > callee.answer_bytes_max:
            raise ProtocolError(
                "push-too-long", f"a response has {len(frame)} bytes, more than the offsets of its partitions need"
            )
        if len(frame) <= _AT_ONCE_BYTES_MAX:
            answer = at_once(_answer_in(layout, frame, callee))
            callee.answered()
            self._post(decide, answer, callee)
            return NO_REPLY
        callee.answered()
        reading = self._completion.slices.add(_answer_in(layout, call.connection.keep_frame(frame), callee))
        reading.add_done_callback(partial(self._answer_is_read, decide, call, callee))
        call.handled_s = self._completion.now()
        return call.later(partial(_drop, reading))

    def _answer_is_read(self, decide: _Decide, call: Call, callee: Callee, reading: "asyncio.Future[Answer]") -> None:
        """Post a long answer that was read in slices. If it is malformed, end its connection."""
        if reading.cancelled():
            call.give_up()
            return
        try:
            self._post(decide, reading.result(), callee)
        except ProtocolError as error:
            call.refuse(error.kind, str(error))
        else:
            call.complete(NO_REPLY)

    def _post(self, decide: _Decide, answer: Answer, callee: Callee) -> None:
        """Post the answer to the coordinator, which decides its effects. Raises ProtocolError if that is impossible."""

        def decide_answer(state: GroupsState, environment: PushEnvironment) -> Decided:
            callee.decided()
            return decide(state, environment, answer)

        try:
            self._context.groups.term_of(callee.group_id).post(decide_answer)
        except KafkaError as error:
            raise ProtocolError("push-no-coordinator", f"a consumer's response cannot be accepted: {error}") from error

    def _ended(self, callee: Callee) -> None:
        """Remove a consumer whose connection has ended, or whose registration was answered with an error.

        If the replicas took too long, the registration may still become durable, and then the consumer leaves the
        group. If the group has a new coordinator, that one detects the loss itself.
        """
        self._forget(callee)
        group_id, consumer_id, connection = callee.group_id, callee.consumer_id, callee.connection.id
        try:
            self._context.groups.term_of(group_id).post(
                lambda state, environment: connection_ended(state, environment, group_id, consumer_id, connection)
            )
        except KafkaError:
            return

    def _forget(self, callee: Callee) -> None:
        self._callees.pop(callee.connection.id, None)
        self._context.groups.callers.remove(callee.connection.id)
        # The callback refers to the callee. No reference cycle may outlive the connection.
        callee.ended = nothing


def _denial(call: Call, message: RegisterConsumerRequest) -> ErrorCode:
    """Return the error of a consumer that may not read its group, or a topic that it names.

    The group's coordinator leaves out the topics of a pattern that the consumer may not describe.
    """
    access = call.access
    if access is None:
        return ErrorCode.NONE
    if not access.group(message.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    try:
        topics = parse_topic_count(message.topic_count).topics
    except KafkaError:
        # The coordinator refuses the registration with the same error.
        return ErrorCode.NONE
    return ErrorCode.NONE if all(map(access.topic, topics)) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _registered(call: Call, code: ErrorCode) -> Reply:
    call.error = code
    return (layouts.REGISTER_CONSUMER_RESPONSE.write(RegisterConsumerResponse(code)),)


def _answer_in(layout: Layout[Any], frame: memoryview, callee: Callee) -> Steps[Answer]:
    """Read a consumer's answer to a call. Raises ProtocolError."""
    message = yield from message_in_steps(layout, frame)
    told = message.offset_info if isinstance(message, PingResponse | StopFetcherResponse) else None
    offsets = None if told is None else (yield from each(told, _consumed))
    return Answer(callee.group_id, message.consumer_id, callee.connection.id, message.error_code, offsets)


def _drop(reading: "asyncio.Future[Answer]") -> None:
    reading.cancel()


def _consumed(told: PartitionOffset) -> Consumed:
    return Consumed(told.topic, partition_number(told.partition), told.offset)
