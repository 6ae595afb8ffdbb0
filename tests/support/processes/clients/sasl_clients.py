"""What a client that authenticates gets from a broker."""

import logging
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def refusal(bootstrap: str, mechanism: str, **settings: Any) -> str | None:
    """What aiokafka logs when a broker refuses it; None if it is accepted. `settings` are its own."""
    kept = _Kept()
    logger = logging.getLogger("aiokafka")
    logger.addHandler(kept)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **settings
    )
    try:
        await producer.start()
    except KafkaError:
        return "\n".join(kept.lines)
    finally:
        await producer.stop()
        logger.removeHandler(kept)
    return None
