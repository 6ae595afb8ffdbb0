"""Key stores and trust stores in PEM (KIP-651): checked by Apache Kafka's rules, and read. Shell: it reads files.

Raises ConfigError with the key and what to do. No text of an error has a part of a store's content.
"""

from dataclasses import dataclass, field
from pathlib import Path

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.certificate import CertificateInfo, certificate_info
from broker_runtime.security.tls.pem import PemBlock, certificates, private_key
from broker_runtime.security.tls.tls_settings import KeyStoreSettings, TrustStoreSettings

PEM = "PEM"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key with its certificate chain, this node's certificate first."""

    key: PemBlock = field(repr=False)
    chain: tuple[PemBlock, ...]
    password: str | None = field(repr=False)
    infos: tuple[CertificateInfo, ...]

    @property
    def text(self) -> str:
        """Return key and chain in PEM, as OpenSSL reads them."""
        return "".join(block.text for block in (self.key, *self.chain))


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The trusted certificates that the other side's certificate is checked with."""

    anchors: tuple[PemBlock, ...]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.anchors)


def read_key_store(settings: KeyStoreSettings, bytes_max: int) -> KeyStore | None:
    """Return the configured key store; None without one. Raises ConfigError."""
    prefix = f"{settings.prefix}ssl.keystore."
    if not settings.is_given:
        return None
    _check_type(f"{prefix}type", settings.type, f"{prefix}location")
    if settings.password is not None:
        raise ConfigError(
            f"{prefix}password: PEM files have no password of their own; remove it, and give the password of the "
            f"private key as {settings.prefix}ssl.key.password"
        )
    if settings.location is not None:
        for name, text in (("key", settings.key), ("certificate.chain", settings.chain)):
            if text is not None:
                raise ConfigError(f"{prefix}{name}: {prefix}location is set, too; remove one of the two")
        source = f"{prefix}location: {settings.location}"
        text = _read(settings.location, f"{prefix}location", bytes_max)
        return _key_store(text, text, source, source, settings.key_password)
    if settings.key is None or settings.chain is None:
        given, missing = ("certificate.chain", "key") if settings.key is None else ("key", "certificate.chain")
        raise ConfigError(f"{prefix}{given}: {prefix}{missing} is missing; set both, or {prefix}location")
    return _key_store(settings.key, settings.chain, f"{prefix}key", f"{prefix}certificate.chain", settings.key_password)


def _key_store(key: str, chain: str, key_source: str, chain_source: str, password: str | None) -> KeyStore:
    found = certificates(chain, chain_source)
    return KeyStore(
        private_key(key, key_source), tuple(found), password, tuple(_info(one, chain_source) for one in found)
    )


def _info(certificate: PemBlock, source: str) -> CertificateInfo:
    try:
        return certificate_info(certificate.der)
    except ValueError:
        raise ConfigError(f"{source}: a certificate is malformed; copy it again") from None


def read_trust_store(settings: TrustStoreSettings, bytes_max: int) -> TrustStore | None:
    """Return the configured trust store; None without one. Raises ConfigError."""
    prefix = f"{settings.prefix}ssl.truststore."
    if not settings.is_given:
        return None
    _check_type(f"{prefix}type", settings.type, f"{prefix}location")
    if settings.password is not None:
        raise ConfigError(f"{prefix}password: PEM files have no password; remove it")
    if settings.location is None:
        assert settings.certificates is not None
        source, text = f"{prefix}certificates", settings.certificates
    elif settings.certificates is not None:
        raise ConfigError(f"{prefix}certificates: {prefix}location is set, too; remove one of the two")
    else:
        source = f"{prefix}location: {settings.location}"
        text = _read(settings.location, f"{prefix}location", bytes_max)
    anchors = certificates(text, source)
    for anchor in anchors:
        _info(anchor, source)
    return TrustStore(tuple(anchors))


def _check_type(key: str, kind: str, location: str) -> None:
    if kind.upper() != PEM:
        raise ConfigError(
            f"{key}: stores of the type {kind} are not supported; convert the store to PEM (openssl pkcs12 -in "
            f"store.p12 -out store.pem), set {key}=PEM, and name the file in {location}"
        )


def _read(location: str, key: str, bytes_max: int) -> str:
    try:
        with Path(location).open("rb") as opened:
            data = opened.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"{key}: {location} cannot be read: {error.strerror}") from None
    if len(data) > bytes_max:
        raise ConfigError(
            f"{key}: {location} has more than {bytes_max} bytes (sluicegate.tls.pem.max.bytes); it must be in PEM"
        )
    return data.decode("utf-8", "replace")
