"""The keys of TLS, under Kafka's names. A listener overrides each of them with its prefix. Pure."""

from typing import TypeVar

from broker_runtime.config.declaring.allowed import OneOf, at_least, each_of, one_of
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import Key, Type, UpdateMode, Validator

BOOLEAN, STRING, INT, LIST, PASSWORD = Type.BOOLEAN, Type.STRING, Type.INT, Type.LIST, Type.PASSWORD
T = TypeVar("T")
_CHANGEABLE = " May be changed while the broker runs, with the prefix of a listener."
_ALONE = "PEM files have no password of their own: this key must not be set. The key's password is ssl.key.password."
_OF_LISTENER = UpdateMode.PER_BROKER
"""As in Apache Kafka such a key is given together with a new listener, and refused for an existing one."""


def _listener(
    name: str,
    kind: Type,
    default: T,
    doc: str,
    validator: Validator | None = None,
    mode: UpdateMode = UpdateMode.READ_ONLY,
) -> Key[T]:
    """Return a key that a listener may override with its prefix."""
    return Key(name, kind, default, doc, validator, mode, listener_prefixed=True, sensitive=kind is PASSWORD)


def _material(name: str, kind: Type, default: T, doc: str) -> Key[T]:
    """Return a key of the keys and certificates, which change while the broker runs (KIP-226)."""
    return _listener(name, kind, default, doc + _CHANGEABLE, None, UpdateMode.PER_BROKER)


class TlsConfig(Config):
    """Configuration keys of certificates and protocols of TLS listeners, and of connections to other nodes."""

    ssl_keystore_type: Key[str] = _material(
        "ssl.keystore.type", STRING, "JKS", "Format of the key store. TLS needs the value PEM (KIP-651)."
    )
    ssl_keystore_location: Key[str | None] = _material(
        "ssl.keystore.location",
        STRING,
        None,
        "File in PEM with the private key and the certificate chain, in any order. The broker reads it again when it "
        "changes.",
    )
    ssl_keystore_password: Key[str | None] = _material("ssl.keystore.password", PASSWORD, None, _ALONE)
    ssl_keystore_key: Key[str | None] = _material(
        "ssl.keystore.key", PASSWORD, None, "The private key itself in PEM, instead of a file."
    )
    ssl_keystore_certificate_chain: Key[str | None] = _material(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificates themselves in PEM, the one of this node first; goes with ssl.keystore.key.",
    )
    ssl_key_password: Key[str | None] = _material(
        "ssl.key.password", PASSWORD, None, "Password of an encrypted private key."
    )
    ssl_truststore_type: Key[str] = _material(
        "ssl.truststore.type", STRING, "JKS", "Format of the trust store. TLS needs the value PEM (KIP-651)."
    )
    ssl_truststore_location: Key[str | None] = _material(
        "ssl.truststore.location",
        STRING,
        None,
        "File in PEM with the certificates that the other side is checked with. The broker reads it again when it "
        "changes. Without a trust store, those of the operating system apply.",
    )
    ssl_truststore_password: Key[str | None] = _material("ssl.truststore.password", PASSWORD, None, _ALONE)
    ssl_truststore_certificates: Key[str | None] = _material(
        "ssl.truststore.certificates", PASSWORD, None, "The trusted certificates themselves in PEM, instead of a file."
    )
    ssl_protocol: Key[str] = _listener(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "The newest version of TLS to use; ssl.enabled.protocols has all that are enabled.",
        one_of("TLSv1.2", "TLSv1.3", "TLS"),
        _OF_LISTENER,
    )
    ssl_enabled_protocols: Key[tuple[str, ...]] = _listener(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS to use.",
        each_of("TLSv1.2", "TLSv1.3"),
        _OF_LISTENER,
    )
    ssl_cipher_suites: Key[tuple[str, ...]] = _listener(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites of TLS 1.2 to use, by the names of IANA or OpenSSL. Suites of TLS 1.3 may be named and are "
        "always all enabled. OpenSSL's default if it is empty.",
        None,
        _OF_LISTENER,
    )
    ssl_client_auth: Key[str] = _listener(
        "ssl.client.auth",
        STRING,
        "none",
        "required: each client needs a certificate; requested: a client may have one; none: no client is asked. On a "
        "SASL_SSL listener only the value with the listener's prefix applies.",
        OneOf(("none", "requested", "required"), any_case=True),
        _OF_LISTENER,
    )
    ssl_principal_mapping_rules: Key[str] = _listener(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "Rules that make the name of a client from the subject of its certificate, as RULE:pattern/replacement/, "
        "followed by L or U for lower or upper case; DEFAULT is the subject itself. The first rule that matches "
        "applies.",
    )
    ssl_endpoint_identification_algorithm: Key[str] = _listener(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "https: this node checks that the certificate of another node has the name it connects to; empty: it does not.",
        None,
        _OF_LISTENER,
    )
    sluicegate_tls_server_name: Key[str | None] = _listener(
        "sluicegate.tls.server.name",
        STRING,
        None,
        "The name that the certificate of another node must have, instead of the name or address by which this node "
        "connects to it.",
    )
    ssl_allow_dn_changes: Key[bool] = _listener(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "true: a new certificate may have another subject than the current one.",
    )
    ssl_allow_san_changes: Key[bool] = _listener(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "true: a new certificate need not have all alternative names of the current one.",
    )
    security_inter_broker_protocol: Key[str | None] = static(
        "security.inter.broker.protocol",
        STRING,
        None,
        "Security protocol of the listener that brokers use among themselves, if inter.broker.listener.name is not "
        "given.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sluicegate_tls_handshake_timeout_ms: Key[int] = static(
        "sluicegate.tls.handshake.timeout.ms",
        INT,
        30_000,
        "A connection is closed if its TLS handshake takes longer than this.",
        at_least(1),
    )
    sluicegate_tls_handshakes_max: Key[int] = static(
        "sluicegate.tls.handshakes.max",
        INT,
        2_000,
        "TLS handshakes of one listener whose clients have sent something, and that are not complete. One more ends "
        "the oldest of them. Each takes 50 kB.",
        at_least(1),
    )
    sluicegate_tls_files_check_interval_ms: Key[int] = static(
        "sluicegate.tls.files.check.interval.ms",
        INT,
        10_000,
        "Time between two checks of the files of key stores and trust stores for changes.",
        at_least(100),
    )
    sluicegate_tls_pem_max_bytes: Key[int] = static(
        "sluicegate.tls.pem.max.bytes",
        INT,
        1_048_576,
        "Largest file of a key store or trust store.",
        at_least(1_024),
    )
