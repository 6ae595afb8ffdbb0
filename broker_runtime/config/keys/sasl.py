"""The keys of SASL authentication, by Kafka's names. Pure."""

from typing import TypeVar

from broker_runtime.config.declaring.allowed import at_least, between
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import Key, Type

T = TypeVar("T")

MECHANISM_PREFIXES = ("plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer.", "gssapi.")
"""Beginnings of a listener's key for one mechanism, such as listener.name.internal.plain.sasl.jaas.config."""


def _of_listener(name: str, kind: Type, default: T, doc: str, *, sensitive: bool = False) -> Key[T]:
    return Key(name, kind, default, doc, listener_prefixed=True, sensitive=sensitive)


class SaslConfig(Config):
    """Configuration keys of the authentication of clients at SASL listeners, and of this node at other nodes.

    A change of these keys needs a restart.
    """

    sasl_enabled_mechanisms: Key[tuple[str, ...]] = _of_listener(
        "sasl.enabled.mechanisms",
        Type.LIST,
        ("GSSAPI",),
        "Mechanisms that clients of SASL listeners may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. "
        "Apache Kafka's default, GSSAPI, is not supported: a SASL listener needs this key.",
    )
    sasl_jaas_config: Key[str | None] = _of_listener(
        "sasl.jaas.config",
        Type.PASSWORD,
        None,
        "One login module in the syntax of JAAS, as listener.name.<listener>.<mechanism>.sasl.jaas.config. Options "
        "user_<name> are the users and passwords of PLAIN; username and password are what this node uses at others.",
        sensitive=True,
    )
    sasl_server_max_receive_size: Key[int] = static(
        "sasl.server.max.receive.size",
        Type.INT,
        524_288,
        "Largest request on a SASL connection that is not authenticated yet, or authenticates again.",
        at_least(1),
    )
    sluicegate_scram_users_max: Key[int] = static(
        "sluicegate.scram.users.max",
        Type.INT,
        100_000,
        "Users with SCRAM credentials; AlterUserScramCredentials refuses more with POLICY_VIOLATION.",
        between(1, 1_000_000),
    )
    connection_failed_authentication_delay_ms: Key[int] = static(
        "connection.failed.authentication.delay.ms",
        Type.INT,
        100,
        "Time after which a failed authentication is answered, and its connection closed. It must be less than "
        "connections.max.idle.ms.",
        at_least(0),
    )
    connections_max_reauth_ms: Key[int] = Key(
        "connections.max.reauth.ms",
        Type.LONG,
        0,
        "Longest session of an authenticated SASL client, which has to authenticate again before it ends (KIP-368); 0 "
        "sets no limit. May have the prefix of a listener, and of a listener and a mechanism.",
        at_least(0),
        listener_prefixed=True,
    )
    sasl_mechanism_inter_broker_protocol: Key[str] = Key(
        "sasl.mechanism.inter.broker.protocol",
        Type.STRING,
        "GSSAPI",
        "Mechanism with which brokers authenticate at each other: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
    )
    sasl_mechanism_controller_protocol: Key[str] = static(
        "sasl.mechanism.controller.protocol",
        Type.STRING,
        "GSSAPI",
        "Mechanism with which brokers authenticate at controllers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
    )
    sluicegate_sasl_timeout_ms: Key[int] = static(
        "sluicegate.sasl.timeout.ms",
        Type.INT,
        30_000,
        "A connection to a SASL listener is closed if its client has not authenticated within this time.",
        at_least(1),
    )
    sluicegate_bootstrap_scram_file: Key[str | None] = static(
        "sluicegate.bootstrap.scram.file",
        Type.STRING,
        None,
        "File with the SCRAM credentials of a new cluster, one a line in the syntax of kafka-storage format "
        "--add-scram. A controller reads it when it creates the cluster's metadata, and ignores it afterwards.",
    )


class OAuthConfig(Config):
    """Keys for checking the tokens of the mechanism OAUTHBEARER. Each key may have the prefix of a listener."""

    sasl_oauthbearer_jwks_endpoint_url: Key[str | None] = _of_listener(
        "sasl.oauthbearer.jwks.endpoint.url",
        Type.STRING,
        None,
        "Where the public keys of the issuer are (a JSON Web Key Set): an https://, http:// or file:// URL. "
        "OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Key[int] = Key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Type.LONG,
        3_600_000,
        "Time between two reads of the key set. A token with an unknown key causes a read at once, at most once a "
        "minute for each key.",
        at_least(1),
        listener_prefixed=True,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Key[int] = Key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Type.LONG,
        100,
        "First pause before the key set is read again after a failure; it doubles with each failure.",
        at_least(1),
        listener_prefixed=True,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Key[int] = Key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Type.LONG,
        10_000,
        "Longest such pause.",
        at_least(1),
        listener_prefixed=True,
    )
    sasl_oauthbearer_expected_audience: Key[tuple[str, ...]] = _of_listener(
        "sasl.oauthbearer.expected.audience",
        Type.LIST,
        (),
        "Audiences, of which a token must have at least one. If the list is empty, tokens that have an audience are "
        "refused.",
    )
    sasl_oauthbearer_expected_issuer: Key[str | None] = _of_listener(
        "sasl.oauthbearer.expected.issuer", Type.STRING, None, "Issuer that a token must have; any if it is not given."
    )
    sasl_oauthbearer_clock_skew_seconds: Key[int] = Key(
        "sasl.oauthbearer.clock.skew.seconds",
        Type.INT,
        30,
        "Tolerated difference between the clocks of the issuer and of this node.",
        at_least(0),
        listener_prefixed=True,
    )
    sasl_oauthbearer_scope_claim_name: Key[str] = _of_listener(
        "sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", "Claim of a token with its scopes."
    )
    sasl_oauthbearer_sub_claim_name: Key[str] = _of_listener(
        "sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", "Claim of a token that is the name of the principal."
    )
    sluicegate_oauthbearer_jwks_ca_file: Key[str | None] = _of_listener(
        "sluicegate.oauthbearer.jwks.ca.file",
        Type.STRING,
        None,
        "File with the certificates (PEM) that the server of the key set is checked with; those of the system if it "
        "is not given.",
    )
    sluicegate_oauthbearer_jwks_token_file: Key[str | None] = _of_listener(
        "sluicegate.oauthbearer.jwks.token.file",
        Type.STRING,
        None,
        "File with a token that is sent to the server of the key set. It is read each time, because Kubernetes "
        "replaces it.",
    )
    sluicegate_oauthbearer_jwks_timeout_ms: Key[int] = Key(
        "sluicegate.oauthbearer.jwks.timeout.ms",
        Type.INT,
        10_000,
        "Timeout of one read of the key set.",
        at_least(1),
        listener_prefixed=True,
    )
    sluicegate_oauthbearer_jwks_max_bytes: Key[int] = Key(
        "sluicegate.oauthbearer.jwks.max.bytes",
        Type.INT,
        1_048_576,
        "Largest key set.",
        between(1, 64 * 1024 * 1024),
        listener_prefixed=True,
    )
    sluicegate_sasl_checks_max: Key[int] = static(
        "sluicegate.sasl.checks.max",
        Type.INT,
        1_000,
        "Tokens that may wait for their check; the authentication of others fails.",
        at_least(1),
    )
