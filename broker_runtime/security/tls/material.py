"""Everything that the TLS settings of one listener amount to: stores, contexts and rules. Shell: it reads the files."""

import ssl
from dataclasses import dataclass

from broker_runtime.errors import ConfigError
from broker_runtime.security.principal import ANONYMOUS, USER, Principal
from broker_runtime.security.tls.certificate import subject_of
from broker_runtime.security.tls.contexts import client_context, server_context
from broker_runtime.security.tls.mapping_rules import MappingRules
from broker_runtime.security.tls.stores import KeyStore, TrustStore, read_key_store, read_trust_store
from broker_runtime.security.tls.tls_settings import TlsSettings


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of a listener's settings: to accept connections (`serves`), to open connections to others (`dials`)."""

    serves: bool = False
    dials: bool = False

    def __or__(self, other: "Uses") -> "Uses":
        return Uses(serves=self.serves or other.serves, dials=self.dials or other.dials)


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The loaded TLS settings of one listener. The contexts are those that its `uses` need."""

    settings: TlsSettings
    uses: Uses
    keys: KeyStore | None
    trust: TrustStore | None
    server: ssl.SSLContext | None
    client: ssl.SSLContext | None
    rules: MappingRules

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client, by the client's verified certificate in DER.

        Raises NoRuleError, ValueError.
        """
        return ANONYMOUS if certificate is None else Principal(USER, self.rules.name(subject_of(certificate)))


def load(settings: TlsSettings, uses: Uses) -> TlsMaterial:
    """Read the stores of TLS settings and make the contexts. Raises ConfigError."""
    keys = read_key_store(settings.keys, settings.pem_max_bytes)
    trust = read_trust_store(settings.trust, settings.pem_max_bytes)
    return TlsMaterial(
        settings,
        uses,
        keys,
        trust,
        server_context(settings, _needed(settings, keys), trust) if uses.serves else None,
        client_context(settings, keys, trust) if uses.dials else None,
        MappingRules(settings.principal_rules),
    )


def _needed(settings: TlsSettings, keys: KeyStore | None) -> KeyStore:
    if keys is None:
        prefix = settings.keys.prefix
        raise ConfigError(
            f"{prefix}ssl.keystore.location is missing: a listener with TLS needs a private key and a certificate; "
            f"name a PEM file and set {prefix}ssl.keystore.type=PEM"
        )
    return keys
