"""Wait for the rack that this broker registers with in a file, if only another process knows it (KIP-36: racks).

In Kubernetes the rack is a label of the pod's node. The operator reads the label, which then appears in a file of
the pod: docs/decisions/0011. A file that is empty or absent was not written yet.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from broker_runtime.config import BrokerConfig, BrokerSettings

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2


class RackUnknownError(Exception):
    """Error for a rack file that cannot be read, or is still empty after the timeout."""


async def with_rack(settings: BrokerSettings, stop: asyncio.Event) -> BrokerSettings:
    """Return the settings with `broker.rack` from the rack file.

    They stay unchanged without a file, or if `stop` is set first.
    """
    file = settings.config.sluicegate_broker_rack_file
    if not settings.is_broker or file is None:
        return settings
    rack = await _wait(Path(file), settings.config.sluicegate_broker_rack_timeout_ms / 1000, stop)
    if not rack:
        return settings
    log.info("this broker is in rack %s", rack)
    given = {**settings.given, BrokerConfig.broker_rack.name: rack}
    return replace(settings, given=given).with_value(BrokerConfig.broker_rack, rack)


async def _wait(file: Path, timeout_s: float, stop: asyncio.Event) -> str:
    """Return the rack; empty if `stop` is set first."""
    rack = _read(file)
    if not rack:
        log.info("waiting up to %g s for the rack of this broker in %s", timeout_s, file)
    try:
        async with asyncio.timeout(timeout_s):
            while not rack and not stop.is_set():
                await _wait_to_read(stop)
                rack = _read(file)
    except TimeoutError:
        raise RackUnknownError(
            f"sluicegate.broker.rack.file: {file} is empty after {timeout_s:g} s, so the rack of this broker is "
            "unknown. In Kubernetes the operator writes this file: check that the operator runs, and that this "
            "pod's node has the label that is named by brokers.rack.topologyKey of the BrokerCluster (kubectl "
            "describe brokercluster)"
        ) from None
    return rack


async def _wait_to_read(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_EVERY_S):
            await stop.wait()
    except TimeoutError:
        return


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise RackUnknownError(f"sluicegate.broker.rack.file: {file} cannot be read: {error}") from error
