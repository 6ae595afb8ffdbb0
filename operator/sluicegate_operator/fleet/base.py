"""What a fleet knows of a broker, wherever it runs: it is known by its id and reached by its own address, never through
a Service. Nothing here does I/O.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddress:
    """Where one broker answers: the Kafka listener that the operator uses. `up`: whoever runs it says that it is ready;
    one that is not is asked with little patience, so that a roll holds no limit up. `barred`: why nothing is
    asked of what answers there, and nothing changed through it; empty for a broker that may be asked."""

    broker_id: int
    host: str
    port: int
    up: bool = field(default=True, compare=False)
    barred: str = field(default="", compare=False)
