"""The security settings of the connections to an external cluster, read from the Secrets that its spec names.

A Secret is read again after FRESH_S, so a changed one is used without a restart. The settings are soft state.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kafka_bytes.sasl.mechanisms import OAUTHBEARER
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.external_access import WITH_PASSWORD, ExternalAuthentication, ExternalTls
from sluicegate_operator.kafka_admin.security.client_security import (
    PLAINTEXT,
    ClientSecurity,
    SaslSettings,
    SecurityError,
    TlsSettings,
)
from sluicegate_operator.kube.http.errors import KubeError

FRESH_S = 10.0
"""Seconds for which the content of Secrets is used before they are read again."""

ReadSecret = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]
"""Function that returns the data of a Secret by namespace and name; None without it. It raises KubeError."""


async def no_secrets(namespace: str, name: str) -> Mapping[str, bytes] | None:
    """Return None, for a process without an API server."""
    return None


class SecretUnusableError(Exception):
    """Error for a Secret that is missing, or lacks what the spec expects. The message is a sentence for users."""


@dataclass(slots=True)
class _Read:
    generation: tuple[str, int] = ("", 0)
    at_s: float = float("-inf")
    security: ClientSecurity = PLAINTEXT
    problem: str = ""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExternalSecurity:
    """The security settings of external clusters, by cluster. Belongs to one event loop."""

    def __init__(self, read_secret: ReadSecret = no_secrets) -> None:
        self._read_secret = read_secret
        self._known: defaultdict[tuple[str, str], _Read] = defaultdict(_Read)

    async def of(self, cluster: BrokerCluster) -> ClientSecurity:
        """Return the security settings of the cluster. Raises SecretUnusableError."""
        if cluster.spec.external is None:
            return PLAINTEXT
        known = self._known[cluster.namespace, cluster.name]
        async with known.reading:
            now_s = asyncio.get_running_loop().time()
            if known.generation != cluster.spec_version or now_s - known.at_s > FRESH_S:
                await self._read_again(known, cluster)
                known.generation, known.at_s = cluster.spec_version, asyncio.get_running_loop().time()
        if known.problem:
            raise SecretUnusableError(known.problem)
        return known.security

    def forget(self, key: tuple[str, str]) -> None:
        self._known.pop(key, None)

    async def _read_again(self, known: _Read, cluster: BrokerCluster) -> None:
        known.problem = ""
        try:
            security = await self._security(cluster)
            # Reading the certificates of the system takes 20 ms.
            await asyncio.to_thread(security.check)
        except (SecretUnusableError, SecurityError) as error:
            known.problem = str(error)
        else:
            known.security = security

    async def _security(self, cluster: BrokerCluster) -> ClientSecurity:
        access = cluster.spec.external
        if access is None:
            return PLAINTEXT
        values = _Values(self._read_secret, cluster.namespace)
        tls, authentication = access.tls, access.authentication
        return ClientSecurity(
            await _tls(values, tls, authentication) if tls is not None else None,
            await _sasl(values, authentication) if authentication is not None else None,
        )


class _Values:
    """Values of Secrets of one namespace; each Secret is read once."""

    def __init__(self, read_secret: ReadSecret, namespace: str) -> None:
        self._read_secret = read_secret
        self._namespace = namespace
        self._found: dict[str, Mapping[str, bytes]] = {}

    async def text(self, secret: str, key: str, field_: str) -> str:
        """Return the value as text. `field_` is the field of the spec that names it. Raises SecretUnusableError."""
        if secret not in self._found:
            try:
                found = await self._read_secret(self._namespace, secret)
            except KubeError as error:
                raise SecretUnusableError(_unread_words(secret, field_, error)) from None
            if found is None:
                raise SecretUnusableError(f"Secret {secret}, which {field_} names, does not exist: create it")
            self._found[secret] = found
        value = self._found[secret].get(key)
        if not value:
            raise SecretUnusableError(f"Secret {secret} has no key {key}, which {field_} names: add it")
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise SecretUnusableError(f"the key {key} of Secret {secret} is not text: {field_} needs text") from None

    async def line(self, secret: str, key: str, field_: str) -> str:
        """Return a password or a token. Raises SecretUnusableError."""
        text = await self.text(secret, key, field_)
        if text != text.strip("\r\n"):
            raise SecretUnusableError(
                f"the key {key} of Secret {secret} begins or ends with a line break, which would be part of the"
                " password: write it without (printf instead of echo)"
            )
        return text


def _unread_words(secret: str, field_: str, error: KubeError) -> str:
    if error.status == 403:
        return (
            f"Secret {secret}, which {field_} names, cannot be read, because the operator has no right to read Secrets:"
            " install the chart with rbac.secrets=true"
        )
    return f"Secret {secret}, which {field_} names, cannot be read: {error}"


async def _tls(values: _Values, tls: ExternalTls, authentication: ExternalAuthentication | None) -> TlsSettings:
    where = "external.tls.trustedCertificates"
    trusted = [await values.text(one.secret_name, one.certificate, where) for one in tls.trusted_certificates or ()]
    pair = authentication.certificate_and_key if authentication is not None else None
    if pair is None:
        return TlsSettings("\n".join(trusted))
    where = "external.authentication.certificateAndKey"
    certificate = await values.text(pair.secret_name, pair.certificate, where)
    return TlsSettings("\n".join(trusted), certificate, await values.text(pair.secret_name, pair.key, where))


async def _sasl(values: _Values, authentication: ExternalAuthentication) -> SaslSettings | None:
    if authentication.type in WITH_PASSWORD and authentication.password_secret is not None:
        secret = authentication.password_secret
        password = await values.line(secret.secret_name, secret.password, "external.authentication.passwordSecret")
        return SaslSettings(authentication.type.upper(), authentication.username or "", password)
    if authentication.access_token is not None:
        token = authentication.access_token
        value = await values.line(token.secret_name, token.key, "external.authentication.accessToken")
        return SaslSettings(OAUTHBEARER, token=value)
    return None
