"""The block of producer ids that this broker assigns (KIP-730)."""

import asyncio
import logging

from broker_runtime.apis.request.context import ControllerRequests
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.versions import ALLOCATE_PRODUCER_IDS

log = logging.getLogger(__name__)


class ProducerIdBlocks:
    """The producer ids that this broker assigns.

    A block of ids is requested from the controller at the first use, and when the current block is used up. The block
    is not durable here: the controller stores where the next one begins. The ids left at a stop are never used.
    """

    def __init__(self, broker_id: int, image: MetadataImage, controller: ControllerRequests) -> None:
        self._broker_id = broker_id
        self._image = image
        self._controller = controller
        self._next = 0
        self._end = 0
        self._asking = asyncio.Lock()
        self._asking_aside: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """Return a producer id that is unique in the cluster.

        Raises KafkaError if the controller provides no block now.
        """
        await self.ready()
        return self._taken()

    async def ready(self) -> None:
        """Wait until an id is at hand. Raises KafkaError if the controller provides no block now."""
        while self._next >= self._end:
            async with self._asking:
                if self._next >= self._end:
                    await self._ask()

    def take(self) -> int:
        """Return a producer id that is unique in the cluster, without waiting.

        Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if none is at hand, and asks the controller for a block.
        """
        if self._next >= self._end:
            if self._asking_aside is None:
                self._asking_aside = asyncio.get_running_loop().create_task(self._ask_aside(), name="producer ids")
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker waits for producer ids; try again")
        return self._taken()

    async def _ask_aside(self) -> None:
        try:
            await self.ready()
        except KafkaError as error:
            log.info("the controller provides no producer ids: %s", error)
        finally:
            self._asking_aside = None

    def close(self) -> None:
        """Stop the request of `take` for a block."""
        if self._asking_aside is not None:
            self._asking_aside.cancel()

    def _taken(self) -> int:
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
