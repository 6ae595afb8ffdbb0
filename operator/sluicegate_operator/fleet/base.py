"""The address of a broker, wherever it runs. No I/O.

The operator reaches a broker by its own address, never through a Service.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddress:
    """The address of one broker's Kafka listener that the operator uses.

    `up`: its pod or process reports ready. Other brokers get a short timeout, so that a roll does not delay limits.
    `barred`: why the operator neither queries nor changes the process at this address; empty for a broker that may be
    queried.
    """

    broker_id: int
    host: str
    port: int
    up: bool = field(default=True, compare=False)
    barred: str = field(default="", compare=False)
