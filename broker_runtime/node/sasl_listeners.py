"""Imports authentication by SASL if this process has a listener that needs it (decision 45)."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings, Endpoint
from broker_runtime.config.declaring.endpoints import SASL
from broker_runtime.metadata.image import MetadataImage

if TYPE_CHECKING:
    from broker_runtime.apis.sasl.authentication import Authentication

_AUTHENTICATION = "broker_runtime.apis.sasl.authentication"


def authentication_of(
    settings: BrokerSettings,
    opened: Iterable[Endpoint],
    image: Callable[[], MetadataImage],
    cluster_id: str,
    clock: Clock,
) -> "Authentication | None":
    """Return the authentication of the SASL listeners among `opened`; None if there are none. Raises ConfigError."""
    names = [endpoint.listener for endpoint in opened if endpoint.security_protocol in SASL]
    if not names:
        return None
    found: Authentication = import_module(_AUTHENTICATION).Authentication(settings, names, image, cluster_id, clock)
    return found
