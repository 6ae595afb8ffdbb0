"""The SASL settings of one listener, from the configuration. Raises ConfigError for those that cannot be used. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_runtime.config import BrokerConfig, BrokerSettings
from broker_runtime.config.declaring.definition import Key
from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.exchange import Limits
from broker_runtime.security.sasl.mechanism import PLAIN, SERVED_MECHANISMS, ServerMechanism
from broker_runtime.security.sasl.plain import PlainServer
from kafka_bytes.errors import FormatError
from kafka_bytes.sasl.login import LoginModule, login_module

T = TypeVar("T")
Create = Callable[[], ServerMechanism]

_PLAIN_MODULE = "PlainLoginModule"
_USER = "user_"


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The settings of SASL on a listener.

    They are the mechanisms, each with the factory of its server side, and the limits of sessions.
    """

    mechanisms: Mapping[str, Create] = field(repr=False)
    limits: Limits


class ListenerValues:
    """The configured values of one listener.

    A key of the mechanism overrides the listener's, which overrides the node's.
    """

    def __init__(self, settings: BrokerSettings, listener: str) -> None:
        self._values = settings.values
        self._prefix = f"listener.name.{listener.lower()}."

    def get(self, key: Key[T], mechanism: str | None = None) -> T:
        """Return the value of `key` for a mechanism or, without one, for the listener."""
        value: Any = self._values[key.name]
        for prefix in (self._prefix, *(() if mechanism is None else (f"{self._prefix}{mechanism.lower()}.",))):
            value = self._values.get(prefix + key.name, value)
        found: T = value
        return found

    def jaas_key(self, mechanism: str) -> str:
        """Return the name of the key with the login module of a mechanism."""
        return f"{self._prefix}{mechanism.lower()}.{BrokerConfig.sasl_jaas_config.name}"

    def login_module(self, mechanism: str) -> LoginModule | None:
        """Return the login module of a mechanism; None if none is configured."""
        key = self.jaas_key(mechanism)
        text = self._values.get(key)
        if not isinstance(text, str):
            return None
        try:
            return login_module(text, key)
        except FormatError as error:
            raise ConfigError(str(error)) from None


def enabled_mechanisms(values: ListenerValues, listener: str) -> Sequence[str]:
    """Return the mechanisms that the clients of a listener may use."""
    names = tuple(name.upper() for name in values.get(BrokerConfig.sasl_enabled_mechanisms))
    unknown = [name for name in names if name not in SERVED_MECHANISMS]
    if unknown or not names:
        raise ConfigError(
            f"sasl.enabled.mechanisms: {unknown[0] if unknown else 'an empty list'} is not supported on the listener "
            f"{listener}; use some of {', '.join(SERVED_MECHANISMS)}"
        )
    return names


def plain_users(values: ListenerValues, listener: str) -> Mapping[str, str]:
    """Return the passwords of PLAIN by user."""
    module = values.login_module(PLAIN)
    if module is None or module.name != _PLAIN_MODULE:
        raise ConfigError(
            f"{values.jaas_key(PLAIN)} is needed, because PLAIN is enabled on the listener {listener}; set "
            f'org.apache.kafka.common.security.plain.{_PLAIN_MODULE} required user_<name>="<password>";'
        )
    return {name.removeprefix(_USER): value for name, value in module.options.items() if name.startswith(_USER)}


def listener_sasl(
    settings: BrokerSettings, listener: str, others: Mapping[str, Callable[[str], Create]]
) -> ListenerSasl:
    """Return the SASL settings of a listener. `others` creates mechanisms other than PLAIN, for the listener's name."""
    values = ListenerValues(settings, listener)
    names = enabled_mechanisms(values, listener)
    mechanisms: dict[str, Create] = {}
    for name in names:
        if name == PLAIN:
            users = plain_users(values, listener)
            mechanisms[name] = lambda users=users: PlainServer(users)  # type: ignore[misc]
        else:
            mechanisms[name] = others[name](listener)
    lifetimes = {name: values.get(BrokerConfig.connections_max_reauth_ms, name) for name in names}
    return ListenerSasl(mechanisms, Limits(lifetimes))
