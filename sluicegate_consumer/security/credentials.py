"""The credentials of a consumer for SASL: a user name with a password, or a function that returns access tokens."""

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kafka_bytes.sasl.mechanisms import OAUTHBEARER, PLAIN, BearerExchange, PlainExchange, SaslError, SaslExchange
from kafka_bytes.sasl.scram import SCRAM_MECHANISMS, ScramExchange
from sluicegate_consumer.errors import AuthenticationError, SettingsError

PASSWORD_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)


@dataclass(frozen=True, slots=True)
class SaslPassword:
    """Credentials for PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512: a user name and a password. Raises SettingsError."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in PASSWORD_MECHANISMS:
            raise SettingsError(f"the mechanism of SaslPassword must be one of {', '.join(PASSWORD_MECHANISMS)}")
        for name in ("username", "password"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise SettingsError(f"the {name} for {self.mechanism} must be a text that is not empty")
        try:
            self._exchange()
        except SaslError as error:
            raise SettingsError(str(error)) from None
        except UnicodeEncodeError:
            raise SettingsError(f"the username or password for {self.mechanism} cannot be encoded as UTF-8") from None

    async def exchange(self) -> SaslExchange:
        """Return the client's side of one authentication."""
        return self._exchange()

    def _exchange(self) -> SaslExchange:
        if self.mechanism == PLAIN:
            return PlainExchange(self.username, self.password)
        return ScramExchange(self.mechanism, self.username, self.password, secrets.token_urlsafe(24))


@dataclass(frozen=True, slots=True)
class SaslToken:
    """Credentials for OAUTHBEARER. `token` returns a valid access token; it is called for each authentication.

    `token` is an async function, or a function that runs in a thread. After an OSError from `token`, the authentication
    is tried again. Any other error ends the consumer.
    """

    token: Callable[[], str] | Callable[[], Awaitable[str]] = field(repr=False)
    mechanism: str = field(default=OAUTHBEARER, init=False)

    def __post_init__(self) -> None:
        if not callable(self.token):
            raise SettingsError("the token of SaslToken must be a function that returns an access token")

    async def exchange(self) -> SaslExchange:
        """Return the client's side of one authentication. Raises AuthenticationError, SaslError or OSError."""
        try:
            found = await self._found()
        except OSError:
            raise
        except Exception as error:
            raise AuthenticationError("the function that returns the access token has failed") from error
        if not isinstance(found, str):
            raise AuthenticationError("the function that returns the access token returned no text")
        return BearerExchange(found)

    async def _found(self) -> object:
        if inspect.iscoroutinefunction(self.token):
            return await self.token()
        found = await asyncio.to_thread(self.token)
        return await found if inspect.isawaitable(found) else found


Sasl = SaslPassword | SaslToken
