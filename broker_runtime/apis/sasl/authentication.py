"""Creates what a node needs to authenticate the clients of its SASL listeners. Imported only if it has one. Shell."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.apis.sasl.authenticator import AuthenticationLimits, Authenticator
from broker_runtime.apis.sasl.checks import Checks
from broker_runtime.apis.sasl.frames import import_messages
from broker_runtime.apis.sasl.listener_settings import Create, listener_sasl
from broker_runtime.apis.sasl.scram_mechanisms import scram_mechanisms
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.server import SocketServer
from broker_runtime.security.sasl.mechanism import OAUTHBEARER
from broker_runtime.wire.handler import FrameHandler

if TYPE_CHECKING:
    from broker_runtime.apis.sasl.oauth_mechanism import OAuthMechanism

_OAUTH = "broker_runtime.apis.sasl.oauth_mechanism"


class Authentication:
    """The authentication of one server's clients, with its threads.

    Raises ConfigError for settings that cannot be used.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        listeners: Iterable[str],
        image: Callable[[], MetadataImage],
        cluster_id: str,
        clock: Clock,
    ) -> None:
        others: dict[str, Callable[[str], Create]] = scram_mechanisms(image, cluster_id)
        self._oauth: OAuthMechanism | None = None
        others[OAUTHBEARER] = self._bearer
        self._settings = settings
        self._clock = clock
        self._listeners = {name: listener_sasl(settings, name, others) for name in listeners}
        config = settings.config
        self._limits = AuthenticationLimits(
            config.sasl_server_max_receive_size,
            config.connection_failed_authentication_delay_ms / 1000,
            config.sluicegate_sasl_timeout_ms / 1000,
        )
        self._checks = Checks(config.sluicegate_sasl_checks_max)
        import_messages()

    def _bearer(self, listener: str) -> Create:
        """Return the factory of OAUTHBEARER mechanisms of a listener. Imports the modules for tokens."""
        if self._oauth is None:
            self._oauth = import_module(_OAUTH).OAuthMechanism(self._settings, self._clock)
        return self._oauth.of(listener)

    def of(self, server: SocketServer, inner: FrameHandler) -> None:
        """Authenticate the clients of the server's SASL listeners before `inner` handles their requests."""
        server.authenticate = Authenticator(
            inner, self._listeners, self._limits, self._clock, self._checks, server.authentications
        ).begin

    def close(self) -> None:
        self._checks.close()
        if self._oauth is not None:
            self._oauth.close()
