"""Whether new keys and certificates may replace those of an open listener, by Apache Kafka's rules. Shell for OpenSSL.

Raises ConfigError with the key and what to do.
"""

import ssl
from dataclasses import replace

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.contexts import client_context
from broker_runtime.security.tls.material import TlsMaterial

_ROUNDS = 10
"""Flights of a handshake; TLS 1.2 has four."""


def check_change(now: TlsMaterial, new: TlsMaterial, *, between_brokers: bool) -> None:
    """Check that `new` may replace `now` on an open listener.

    With `between_brokers`, brokers connect by this listener, some with the old and some with the new certificate.
    """
    prefix = now.settings.keys.prefix
    if _fixed(now) != _fixed(new):
        raise ConfigError(
            f"{prefix}ssl: only the keys of the key store and the trust store change while the listener is open; "
            "change the others in the properties file and restart the broker, or add a new listener"
        )
    if now.trust is None and new.trust is not None:
        raise ConfigError(
            f"{prefix}ssl.truststore.location: the listener was opened without a trust store, and cannot get one while "
            "it is open; set it in the properties file and restart the broker"
        )
    _check_names(now, new)
    if between_brokers:
        for server, client in ((now, new), (new, now)):
            check_handshake(server, client)


def _fixed(material: TlsMaterial) -> object:
    """Return the settings that do not change while a listener is open."""
    given = material.settings
    return replace(given, keys=type(given.keys)(), trust=type(given.trust)())


def _check_names(now: TlsMaterial, new: TlsMaterial) -> None:
    if now.keys is None or new.keys is None:
        return
    prefix, was, will_be = now.settings.keys.prefix, now.keys.infos[0], new.keys.infos[0]
    if not now.settings.allow_dn_changes and was.subject.lower() != will_be.subject.lower():
        raise ConfigError(
            f"{prefix}ssl.keystore: the new certificate is of {will_be.subject}, and the current one of {was.subject}; "
            f"issue one with the same subject, or set {prefix}ssl.allow.dn.changes=true in the properties file"
        )
    if not now.settings.allow_san_changes and not was.alternative_names <= will_be.alternative_names:
        raise ConfigError(
            f"{prefix}ssl.keystore: the new certificate does not have all alternative names of the current one; issue "
            f"one with them, or set {prefix}ssl.allow.san.changes=true in the properties file"
        )


def check_handshake(server: TlsMaterial, client: TlsMaterial) -> None:
    """Check that a broker with `client` can connect to a broker with `server`. Host names are not compared."""
    if server.server is None:
        return
    dialling = client_context(replace(client.settings, check_names=False), client.keys, client.trust)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = [
        server.server.wrap_bio(to_server, to_client, server_side=True),
        dialling.wrap_bio(to_client, to_server),
    ]
    try:
        for _ in range(_ROUNDS):
            left = [end for end in left if not _has_finished(end)]
    except ssl.SSLError as error:
        raise ConfigError(
            f"{server.settings.keys.prefix}ssl: brokers could not connect to each other ({error.reason}"
            f"{_detail(error)}); the trust store must have the authority of the key store, also while only some "
            "brokers have the new one"
        ) from None


def _has_finished(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _detail(error: ssl.SSLError) -> str:
    return f": {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else ""
