"""Automatic creation of topics that a client requests (auto.create.topics.enable).

As in Kafka, the client's request does not wait: its answer reports an unknown topic, and the client retries. By then
the new topic may have reached this broker's metadata. An error while creating a topic is only logged; the client gets
the same answer.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from importlib import import_module

from broker_runtime.apis.request.call import ForwardedClient
from broker_runtime.apis.request.context import ControllerRequests
from broker_runtime.apis.request.forwarding import ENVELOPED
from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import CREATE_TOPICS

log = logging.getLogger(__name__)

_LOG_INTERVAL_S = 10.0
_VERSION = 4
"""The newest version whose answer has no configurations of topics: decoding those of 100 topics takes 10 ms."""
_DONE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def with_defaults(name: str) -> Fields:
    """Return the fields of a topic to create with the controller's defaults."""
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": (), "configs": ()}


class AutoTopicCreation:
    """The pending requests for creating topics: at most `requests_max`, and one for each topic.

    Beyond this limit no request is sent. The client gets the same answer as others, and retries.
    """

    def __init__(
        self,
        controller: ControllerRequests,
        clock: Clock,
        timeout_ms: int,
        requests_max: int,
        made_as: Callable[[str], Fields] = with_defaults,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._requests_max = requests_max
        self._made_as = made_as
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_s = float("-inf")

    def ask_for(self, names: Collection[str], client: ForwardedClient | None = None) -> None:
        """Request the creation of topics, except those whose creation is already pending.

        The partitions are charged to the quota of `client`, if a client is given. As in Kafka, the topics are created
        even if the client is over its quota.
        """
        new = [name for name in names if name not in self._under_way]
        if new and len(self._tasks) < self._requests_max:
            self._under_way.update(new)
            task = asyncio.get_running_loop().create_task(self._create(new, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _create(self, names: list[str], client: ForwardedClient | None) -> None:
        content = {
            "topics": [self._made_as(name) for name in names],
            "timeout": self._timeout_ms,
            "validate_only": False,
        }
        try:
            answer = await self._asked(content, client)
            for topic in answer.topics:
                if topic.error_code not in _DONE:
                    self._log(topic.name, ErrorCode(int(topic.error_code)).name, topic.error_message)
        except KafkaError as error:
            self._log(names[0], error.code.name, error.message)
        finally:
            self._under_way.difference_update(names)

    async def _asked(self, content: Fields, client: ForwardedClient | None) -> Entity:
        if client is None:
            return await self._controller.request(CREATE_TOPICS, _VERSION, content)
        ask = import_module(ENVELOPED).request_in_envelope
        return await ask(CREATE_TOPICS, _VERSION, content, client, self._controller)

    def _log(self, name: str, code: str, message: str | None) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._logged_s >= _LOG_INTERVAL_S:
            self._logged_s = now_s
            log.warning("topic %s was requested and could not be created automatically: %s: %s", name, code, message)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
