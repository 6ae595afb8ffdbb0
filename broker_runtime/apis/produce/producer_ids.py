"""The block of producer ids that this broker assigns (KIP-730)."""

import asyncio

from broker_runtime.apis.request.context import ControllerRequests
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.versions import ALLOCATE_PRODUCER_IDS


class ProducerIdBlocks:
    """Requests a block of ids from the controller at first use, and when the current block is used up.

    The block is not durable here: the controller stores where the next one begins. The ids left at a stop are never
    used.
    """

    def __init__(self, broker_id: int, image: MetadataImage, controller: ControllerRequests) -> None:
        self._broker_id = broker_id
        self._image = image
        self._controller = controller
        self._next = 0
        self._end = 0
        self._asking = asyncio.Lock()

    async def next_id(self) -> int:
        """Return a producer id that is unique in the cluster. Raises KafkaError if the controller provides none now."""
        while self._next >= self._end:
            async with self._asking:
                if self._next >= self._end:
                    await self._ask()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _ask(self) -> None:
        registered = self._image.brokers.get(self._broker_id)
        if registered is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker is not registered yet")
        answer = await self._controller.request(
            ALLOCATE_PRODUCER_IDS, 0, {"broker_id": self._broker_id, "broker_epoch": registered.epoch}
        )
        if int(answer.error_code):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the controller allocated no producer ids: {ErrorCode(int(answer.error_code)).name}",
            )
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
