"""Imports authentication by SASL if a listener of this process, or of another node, needs it (decision 45)."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig, BrokerSettings, Endpoint
from broker_runtime.config.declaring.definition import Key
from broker_runtime.config.declaring.endpoints import SASL
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.connection.outgoing.client_connection import Login

if TYPE_CHECKING:
    from broker_runtime.apis.sasl.authentication import Authentication

_LOGIN = "broker_runtime.cluster.links.sasl_login"
_AUTHENTICATION = "broker_runtime.apis.sasl.authentication"


def authentication_of(
    settings: BrokerSettings,
    opened: Iterable[Endpoint],
    image: Callable[[], MetadataImage],
    cluster_id: str,
    clock: Clock,
) -> "Authentication | None":
    """Return the authentication of the SASL listeners among `opened`; None without such listeners.

    Raises ConfigError.
    """
    names = [endpoint.listener for endpoint in opened if endpoint.security_protocol in SASL]
    if not names:
        return None
    found: Authentication = import_module(_AUTHENTICATION).Authentication(settings, names, image, cluster_id, clock)
    return found


def login_to_brokers(settings: BrokerSettings) -> Login | None:
    """Return this broker's login at other brokers; None if other brokers require no SASL. Raises ConfigError."""
    name = settings.inter_broker_listener
    if not any(e.listener == name and e.security_protocol in SASL for e in settings.listeners):
        return None
    return _login(settings, name, BrokerConfig.sasl_mechanism_inter_broker_protocol)


def login_to_controllers(settings: BrokerSettings) -> Login | None:
    """Return this node's login at controllers; None if controllers require no SASL. Raises ConfigError."""
    names = settings.config.controller_listener_names
    if not names or not any(server.security_protocol in SASL for server in settings.quorum):
        return None
    return _login(settings, names[0], BrokerConfig.sasl_mechanism_controller_protocol)


def _login(settings: BrokerSettings, listener: str, mechanism: Key[str]) -> Login:
    found: Login = import_module(_LOGIN).login_to(settings, listener, mechanism)
    return found
