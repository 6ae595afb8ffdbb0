"""A controller's metadata for tests: an image that decisions are written to, and a controller over a log in memory."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.config import BrokerSettings, TopicConfig, broker_settings
from broker_runtime.controller.journal.choice import JournalParts, backing
from broker_runtime.controller.service import ControllerService
from broker_runtime.metadata.areas.brokers import BrokerEndpoint, RegisterBroker, UnfenceBroker
from broker_runtime.metadata.areas.cluster import ClusterRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.codec import decode_record, encode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.node.clients.client_quotas_on_demand import MutationsOnDemand
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.encoding.encode import MadeItems
from broker_runtime.wire.messages import decode_request, encode_request_body, encode_response
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.manual_clock import ManualClock
from tests.support.processes.clients.wire_client import read_answer
from tests.support.requests.calls import a_call, fields_later

CLUSTER_ID = "cluster-of-the-tests"
T = TypeVar("T")


def endpoints(*listeners: str) -> tuple[BrokerEndpoint, ...]:
    return tuple(BrokerEndpoint(name, "127.0.0.1", 9092 + n) for n, name in enumerate(listeners or ("PLAINTEXT",)))


class Metadata:
    """An image, and every record that made it as the bytes that the journal would hold."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.journal: list[bytes] = []
        self.write(ClusterRecord(CLUSTER_ID))

    def write(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record, len(self.journal))
            self.journal.append(encode_record(record))

    def commit(self, decided: tuple[Sequence[MetadataRecord], T]) -> T:
        records, answer = decided
        self.write(*records)
        return answer

    def replayed(self) -> MetadataImage:
        image = MetadataImage()
        for offset, value in enumerate(self.journal):
            image.apply(decode_record(value), offset)
        return image

    def broker(self, broker_id: int, *listeners: str, fenced: bool = False, rack: str | None = None) -> None:
        epoch = len(self.journal)
        self.write(RegisterBroker(broker_id, UUID(int=epoch), epoch, endpoints(*listeners), rack))
        if not fenced:
            self.write(UnfenceBroker(broker_id, epoch))

    def topic(self, name: str, *replicas: Sequence[int]) -> UUID:
        topic_id = UUID(int=1000 + len(self.journal))
        self.write(TopicRecord(name, topic_id))
        for index, chosen in enumerate(replicas):
            self.write(PartitionRecord(topic_id, index, tuple(chosen), tuple(chosen), chosen[0], 0, 0))
        return topic_id


_SIZE_BYTES = 4


class ControllerInMemory(AbstractAsyncContextManager["ControllerInMemory"]):
    """A ControllerService with its journal in memory, for handlers to use. A restart keeps the journal."""

    def __init__(
        self,
        fs: MemoryFileSystem | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self.fs = fs or MemoryFileSystem()
        self.clock = ManualClock()
        given = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"} | dict(properties or {})
        self.settings: BrokerSettings = broker_settings(given)
        self.cluster_id = cluster_id
        self.logs = LogManager(Path("/data"), fs=self.fs, clock=self.clock)
        self.logs.open(lambda _topic: TopicConfig())
        self.journal = self.logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, TopicConfig(retention_ms=-1))
        self.hosts: dict[str, str] = {}
        self.authorization: Authorization | None = None
        """The authorizer of the calls of `ask`."""
        self.charge = MutationsOnDemand(self.settings.config, lambda: self.image, self.clock).charge

    def note_on_config(self, key: str) -> None:
        del key

    async def __aenter__(self) -> "ControllerInMemory":
        self.controller: ControllerService = ControllerService(
            backing(self.settings, self.journal, self.clock, JournalParts(InlineExecutor(), "test")),
            self.settings,
            self.clock,
            self.cluster_id,
        )
        await self.controller.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.controller.stop()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    async def resolve_hosts(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        return {name: (self.hosts[name],) for name in names if name in self.hosts}

    async def write(self, *records: MetadataRecord) -> None:
        await self.controller.submit(lambda image: (records, None))

    async def broker(self, broker_id: int = 1, *listeners: str) -> int:
        """Register a live broker and return its epoch; its session lasts until the clock is advanced."""
        epoch = self.image.offset + 1
        registered = RegisterBroker(broker_id, UUID(int=epoch), epoch, endpoints(*listeners), None)
        self.controller.sessions.touch(broker_id, epoch, self.clock.monotonic())
        await self.write(registered, UnfenceBroker(broker_id, epoch))
        return epoch

    async def ask(self, api: ApiSpec[Any], version: int, content: dict[str, Any], node: Any = None) -> Any:
        """The handler's answer to an encoded request.

        Also checks that the answer can be encoded in this version; a packed answer is decoded.
        """
        body = memoryview(encode_request_body(api.key, version, content))
        answer: Any = api.handle(
            decode_request(api.key, version, body), a_call(api, version, self.authorization), cast("Any", node or self)
        )
        answer = await fields_later(answer)
        if isinstance(answer, tuple):
            return read_answer(
                re.sub("(?<!^)(?=[A-Z])", "_", api.name).lower(), version, b"".join(answer)[_SIZE_BYTES:]
            )
        answer = {
            name: [at_once(item) for item in value] if isinstance(value, MadeItems) else value
            for name, value in answer.items()
        }
        assert encode_response(api.key, version, 0, answer)
        return answer
