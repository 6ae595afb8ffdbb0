"""The configuration of secured listeners: Kafka's ssl.* and sasl.* keys with the listener's prefix. Pure.

Brokers read these keys at their start only, so a change of them is a reason to restart. Certificates are in files,
whose paths stay the same when certificates are renewed.
"""

from collections.abc import Iterable

from sluicegate_operator.api.configs.config_keys import LISTENER_PREFIX
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.listener_security import DEFAULT_AUDIENCE, ListenerAuthentication
from sluicegate_operator.resources.secrets.listener_stores import API_CA, API_TOKEN, KEYSTORE, TRUSTSTORE, ListenerStore

API_SERVER_KEYS = "https://kubernetes.default.svc/openid/v1/jwks"
AUDIENCES, CLAIM = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.sub.claim.name"
KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def is_admitted(listener: BrokerListener) -> bool:
    """Return whether brokers may open the listener: its certificates, if it has TLS, were checked and stored."""
    return listener.spec.tls is None or bool(listener.status.tls_secret)


def store_of(listener: BrokerListener) -> ListenerStore | None:
    """Return the files that the listener needs in each broker's pod; None without files."""
    by_accounts = listener.spec.authentication is not None and listener.spec.authentication.type == "serviceAccount"
    secret = listener.status.tls_secret if listener.spec.tls is not None else ""
    return ListenerStore(listener.spec.name, secret, by_accounts) if secret or by_accounts else None


def security_properties(listeners: Iterable[BrokerListener]) -> dict[str, str]:
    """Return the configuration of all secured listeners, without the keys that name files."""
    found: dict[str, str] = {}
    for listener in listeners:
        own = _tls(listener) | _authentication(listener)
        found |= {f"{_prefix(listener)}{key}": value for key, value in own.items()}
    return found


def security_files(listeners: Iterable[BrokerListener]) -> dict[str, str]:
    """Return the part of the secured listeners' configuration that names files.

    The paths are below the folder that the node has for the files.
    """
    found: dict[str, str] = {}
    for listener in listeners:
        files = {"ssl.keystore.location": KEYSTORE} if listener.spec.tls is not None else {}
        if listener.spec.client_auth != "none":
            files["ssl.truststore.location"] = TRUSTSTORE
        if listener.spec.authentication is not None and listener.spec.authentication.type == "serviceAccount":
            files |= {
                "sluicegate.oauthbearer.jwks.ca.file": API_CA,
                "sluicegate.oauthbearer.jwks.token.file": API_TOKEN,
            }
        folder = ListenerStore(listener.spec.name).folder
        found |= {f"{_prefix(listener)}{key}": f"{folder}/{file}" for key, file in files.items()}
    return found


def _prefix(listener: BrokerListener) -> str:
    return f"{LISTENER_PREFIX}{listener.spec.name.lower()}."


def _tls(listener: BrokerListener) -> dict[str, str]:
    if listener.spec.tls is None:
        return {}
    trusted = {"ssl.truststore.type": "PEM"} if listener.spec.client_auth != "none" else {}
    return {"ssl.keystore.type": "PEM", "ssl.client.auth": listener.spec.client_auth} | trusted


def _authentication(listener: BrokerListener) -> dict[str, str]:
    authentication = listener.spec.authentication
    session_s = authentication.max_seconds_without_reauthentication if authentication is not None else None
    session = {} if session_s is None else {"connections.max.reauth.ms": str(session_s * 1000)}
    return _mechanism(authentication) | session


def _mechanism(authentication: ListenerAuthentication | None) -> dict[str, str]:
    match authentication:
        case ListenerAuthentication(type="scram-sha-512"):
            return {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "scram-sha-512.sasl.jaas.config": SCRAM_LOGIN}
        case ListenerAuthentication(type="oauth"):
            return _tokens(authentication, authentication.jwks_endpoint_uri or "", authentication.audiences or ())
        case ListenerAuthentication(type="serviceAccount"):
            audiences = authentication.audiences or (DEFAULT_AUDIENCE,)
            return _tokens(authentication, API_SERVER_KEYS, audiences)
        case _:
            return {}


def _tokens(authentication: ListenerAuthentication, keys: str, audiences: Iterable[str]) -> dict[str, str]:
    values = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        KEYS_URL: keys,
        AUDIENCES: ",".join(audiences),
        "sasl.oauthbearer.expected.issuer": authentication.valid_issuer_uri or "",
        CLAIM: authentication.user_name_claim or "",
    }
    return {key: value for key, value in values.items() if value}
