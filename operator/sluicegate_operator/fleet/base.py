"""What a fleet offers, wherever its brokers run: the seam between handlers and kubernetes.py or local.py.

Nothing here does I/O. A broker is known by its id and reached by its own address, never through a Service.
"""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddress:
    """Where one broker answers: the Kafka listener that the operator uses, and its /metrics and /readyz. `up`: whoever
    runs it says that it is ready; one that is not is asked with little patience, so that a roll holds no limit up."""

    broker_id: int
    host: str
    port: int
    http_host: str | None = None
    http_port: int | None = None
    up: bool = field(default=True, compare=False)


class Fleet(Protocol):
    async def broker_addresses(self, cluster: str) -> tuple[BrokerAddress, ...]:
        """Every broker that should be there, in order of id, whether or not it is up now."""
        ...
