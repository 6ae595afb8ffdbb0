"""One request, the reply it gets, and how the reply becomes a view: what every API module here makes.

Pure. One version of each API is spoken, the newest that Kafka 2.8 knows: the first release with `ip` quotas, so that
an older cluster could not be governed anyway, and every later one serves these versions too. groups.py needs
newer ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kio.static.protocol import RequestPayload, ResponsePayload

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")

READS_OF_GROUPS = ("FindCoordinator", "ConsumerGroupDescribe", "OffsetFetch")
READS = ("ApiVersions", "BrokerMetadata", "Describe", "List", "Metadata", *READS_OF_GROUPS)


@dataclass(frozen=True, slots=True)
class Exchange(Generic[Reply, Result]):
    """`repeatable`: sending it twice ends in the same state as sending it once, so a lost connection may retry.
    `listed`: whether ApiVersions tells of it; what it does not tell of is asked on the off chance.
    `keeps_answer`: see kafka_admin.known_answers."""

    request: RequestPayload
    reply_type: type[Reply]
    read: Callable[[Reply], Result]
    repeatable: bool = True
    listed: bool = True
    keeps_answer: bool = False

    @property
    def api(self) -> str:
        return type(self.request).__name__.removesuffix("Request")

    @property
    def alters(self) -> bool:
        """Whether the request changes anything: requests that only read begin with one of READS."""
        return not self.api.startswith(READS)
