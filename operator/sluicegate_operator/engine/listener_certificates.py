"""Check the certificates of listeners with TLS, and give brokers the good ones in a Secret of the operator.

Brokers mount that Secret, so a Secret of users that is wrong or gone keeps no broker from starting. A renewed
certificate reaches the brokers' files without a restart.
"""

import asyncio
from collections.abc import Mapping, Sequence

from kafka_bytes.pem import ascii_pem
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.listener_security import ListenerTls
from sluicegate_operator.engine.context.context import SecretStore
from sluicegate_operator.kafka_admin.security.client_security import SecurityError, TlsSettings
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.planning.listeners.listener_status import NO_CERTIFICATE, CertificateSeen
from sluicegate_operator.planning.status.conditions import NAME_TAKEN
from sluicegate_operator.resources.secrets.listener_stores import store_name, store_secret

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
MISSING, INVALID, UNREADABLE = "SecretMissing", "CertificateInvalid", "SecretUnreadable"


class _BadCertificateError(Exception):
    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class ListenerCertificates:
    """The certificates of listeners: reads the Secrets that listeners name, and writes the operator's own."""

    def __init__(self, secrets: SecretStore) -> None:
        self._secrets = secrets

    async def apply(self, listeners: Sequence[BrokerListener], *, read_only: bool) -> dict[str, CertificateSeen]:
        """Return the certificates of listeners by metadata.name. With `read_only` no Secret is read or written."""
        found: dict[str, CertificateSeen] = {}
        for listener in listeners:
            tls = listener.spec.tls
            if tls is None:
                found[listener.name] = NO_CERTIFICATE
            elif read_only:
                found[listener.name] = CertificateSeen(listener.status.tls_secret)
            else:
                found[listener.name] = await self._applied(listener, tls)
        return found

    async def _applied(self, listener: BrokerListener, tls: ListenerTls) -> CertificateSeen:
        try:
            keystore, truststore = await self._stores(listener, tls)
            await self._secrets.apply_secret(store_secret(listener, keystore, truststore))
        except _BadCertificateError as error:
            return CertificateSeen(listener.status.tls_secret, str(error), error.reason)
        except NameTakenError as error:
            return CertificateSeen(listener.status.tls_secret, str(error), NAME_TAKEN)
        except KubeError as error:
            problem = f"the certificates cannot be written into Secret {store_name(listener.name)}: {_words(error)}"
            return CertificateSeen(listener.status.tls_secret, problem, UNREADABLE)
        return CertificateSeen(store_name(listener.name))

    async def _stores(self, listener: BrokerListener, tls: ListenerTls) -> tuple[str, str]:
        """Return the texts of key store and trust store; the latter is empty if clients need no certificate."""
        own = await self._secret(listener.namespace, tls.secret_name, "tls.secretName")
        certificate, key = (_text(own, name, tls.secret_name) for name in (CERTIFICATE, KEY))
        authorities = ""
        if listener.spec.client_auth != "none":
            secret, data = tls.secret_name, own
            if tls.client_ca_secret_name is not None:
                secret = tls.client_ca_secret_name
                data = await self._secret(listener.namespace, secret, "tls.clientCaSecretName")
            authorities = _text(data, AUTHORITIES, secret)
        try:
            # Without authorities the system's are read, which takes 20 ms.
            await asyncio.to_thread(TlsSettings(authorities, certificate, key).context)
        except SecurityError as error:
            raise _BadCertificateError(INVALID, f"Secret {tls.secret_name}: {error}") from None
        return _lines(key) + _lines(certificate), _lines(authorities)

    async def _secret(self, namespace: str, name: str, field: str) -> Mapping[str, bytes]:
        try:
            found = await self._secrets.read_secret(namespace, name)
        except KubeError as error:
            problem = f"Secret {name}, which {field} names, cannot be read: {_words(error)}"
            raise _BadCertificateError(UNREADABLE, problem) from None
        if found is None:
            problem = f"Secret {name}, which {field} names, does not exist: create it, for example with cert-manager"
            raise _BadCertificateError(MISSING, problem)
        return found


def _text(data: Mapping[str, bytes], key: str, secret: str) -> str:
    value = data.get(key)
    if not value:
        raise _BadCertificateError(INVALID, f"Secret {secret} has no key {key}: add it, as cert-manager does")
    return ascii_pem(value.decode("utf-8", "replace"))


def _lines(pem: str) -> str:
    """Return the text in one spelling, whatever its line ends, so that only other certificates change the Secret."""
    lines = (line.strip() for line in pem.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def _words(error: KubeError) -> str:
    if error.status == 403:
        return "the operator has no right to Secrets; install the chart with rbac.secrets=true"
    return str(error)
