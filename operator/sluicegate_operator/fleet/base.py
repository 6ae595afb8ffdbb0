"""What a fleet offers, wherever its brokers run: the seam between handlers and kubernetes.py or local.py.

Nothing here does I/O. A broker is known by its id and reached by its own address, never through a Service.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddress:
    """Where one broker answers: the Kafka listener that the operator uses, and its /metrics and /readyz."""

    broker_id: int
    host: str
    port: int
    http_host: str | None = None
    http_port: int | None = None


class Fleet(Protocol):
    async def broker_addresses(self, cluster: str) -> tuple[BrokerAddress, ...]:
        """Every broker that should be there, in order of id, whether or not it is up now."""
        ...
