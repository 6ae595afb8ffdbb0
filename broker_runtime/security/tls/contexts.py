"""Contexts of OpenSSL, made of stores and settings. Shell: OpenSSL reads keys only from files.

Raises ConfigError with the key and what to do.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.cipher_names import TLS_1_3, openssl_name
from broker_runtime.security.tls.stores import KeyStore, TrustStore
from broker_runtime.security.tls.tls_settings import REQUESTED, REQUIRED, TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {REQUESTED: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings, keys: KeyStore, trust: TrustStore | None) -> ssl.SSLContext:
    """Return the SSL context of a listener. Renegotiation is refused, and sessions are resumed by tickets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    context.verify_mode = _CLIENT_AUTH.get(settings.client_auth, ssl.CERT_NONE)
    _configure(context, settings)
    _load_keys(context, settings, keys)
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, settings, trust, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, keys: KeyStore | None, trust: TrustStore | None) -> ssl.SSLContext:
    """Return the SSL context of this node's connections to others.

    `keys` are presented if the other side asks for them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_names
    _configure(context, settings)
    if keys is not None:
        _load_keys(context, settings, keys)
    _load_trust(context, settings, trust, ssl.Purpose.SERVER_AUTH)
    return context


def _configure(context: ssl.SSLContext, settings: TlsSettings) -> None:
    newest = _VERSIONS.get(settings.newest, ssl.TLSVersion.TLSv1_3)
    enabled = [version for name, version in _VERSIONS.items() if name in settings.protocols and version <= newest]
    if not enabled:
        raise ConfigError(
            f"{settings.keys.prefix}ssl.enabled.protocols: no version of {', '.join(settings.protocols)} is enabled "
            f"with ssl.protocol={settings.newest}; raise ssl.protocol, or add TLSv1.2"
        )
    suites = [openssl_name(name) for name in settings.cipher_suites if name not in TLS_1_3]
    if settings.cipher_suites and not suites and max(enabled) is ssl.TLSVersion.TLSv1_3:
        # No suite of TLS 1.2 is allowed.
        enabled = [ssl.TLSVersion.TLSv1_3]
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError:
            raise ConfigError(
                f"{settings.keys.prefix}ssl.cipher.suites: OpenSSL knows none of {', '.join(settings.cipher_suites)}; "
                "use names such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
            ) from None


def _load_keys(context: ssl.SSLContext, settings: TlsSettings, keys: KeyStore) -> None:
    prefix = settings.keys.prefix
    # Without a password OpenSSL would ask for one at the terminal.
    password = keys.password or ""
    with _file(keys.text) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(f"{prefix}ssl.keystore: {_cause(error, prefix)}") from None


def _cause(error: Exception, prefix: str) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key is not the one of the first certificate; put this node's own certificate first"
    if "KEY_TOO_SMALL" in reason:
        return "the key is too short for OpenSSL's security level; use RSA with 2048 bits or more, or an elliptic curve"
    return (
        f"OpenSSL cannot load the private key and its certificates ({reason or type(error).__name__}); check that the "
        f"key is complete, and that {prefix}ssl.key.password is its password"
    )


def _load_trust(context: ssl.SSLContext, settings: TlsSettings, trust: TrustStore | None, use: ssl.Purpose) -> None:
    if trust is None:
        context.load_default_certs(use)
        return
    try:
        context.load_verify_locations(cadata=trust.text)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{settings.trust.prefix}ssl.truststore: OpenSSL cannot load the certificates ({error.reason}); copy them "
            "again"
        ) from None
    # As for Apache Kafka each certificate of the store is trusted, not only those at the end of a chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


@contextmanager
def _file(text: str) -> Iterator[str]:
    """Yield the path of a file in memory with `text`, which exists only meanwhile."""
    descriptor = os.memfd_create("tls")
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode("ascii"))
        opened.flush()
        yield f"/proc/self/fd/{descriptor}"
