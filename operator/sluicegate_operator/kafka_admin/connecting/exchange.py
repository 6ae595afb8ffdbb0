"""One request, its reply, and how the reply becomes a view: the result of every API module of this package.

Pure. One version of each API is used, the newest of Kafka 2.8. That is the first release with `ip` quotas, so an older
cluster could not be governed anyway. Every later release serves these versions too. `groups` needs newer ones.
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
    """One request with the type of its reply.

    `repeatable`: sending the request twice has the same result as sending it once, so it is retried after a lost
    connection. `listed`: whether ApiVersions lists the API; an unlisted API is tried without knowing whether the broker
    serves it. `keeps_answer`: whether the last reply is kept, so that an equal one is not decoded again:
    kafka_admin.connecting.known_answers.
    """

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
        """Return whether the request changes anything in the cluster.

        The names of requests that only read begin with one of READS.
        """
        return not self.api.startswith(READS)
