"""InitProducerId (22), versions 0 to 4, for idempotent producers: always a new id with epoch 0, as in Kafka.

Ids come in blocks from the controller, so that most producers cost no round trip to it.
Not implemented: transactions (a transactional id is answered with COORDINATOR_NOT_AVAILABLE).
"""

import asyncio

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import ALLOCATE_PRODUCER_IDS, INIT_PRODUCER_ID


class ProducerIdBlocks:
    """The block of producer ids that this broker hands out; what is left of it at a stop is never used."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = 0
        self._end = 0
        self._asking = asyncio.Lock()

    async def next_id(self) -> int:
        while self._next >= self._end:
            async with self._asking:
                if self._next >= self._end:
                    await self._ask()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _ask(self) -> None:
        me = self._node.settings.node_id
        registered = self._node.image.brokers.get(me)
        if registered is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker is not registered yet")
        answer = await self._node.send_to_controller(
            ALLOCATE_PRODUCER_IDS, 0, {"broker_id": me, "broker_epoch": registered.epoch}
        )
        if int(answer.error_code):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the controller gives no producer ids: {ErrorCode(int(answer.error_code)).name}",
            )
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len


async def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    # Since version 3 a producer may name its own id, and then both parts of it.
    if (getattr(request, "producer_id", -1) == -1) != (getattr(request, "producer_epoch", -1) == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        producer_id = await node.producer_ids.next_id()
    except KafkaError:
        # Whatever keeps the controller from answering passes; this is the code that every producer tries again on.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API = ApiSpec(key=INIT_PRODUCER_ID, name="InitProducerId", versions=(0, 4), handle=handle)
