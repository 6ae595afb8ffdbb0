"""Take the TLS settings of one listener from configuration values. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from broker_runtime.config import BrokerConfig, SecurityProtocol, Value
from broker_runtime.config.declaring.definition import Key
from broker_runtime.config.keys.broker import LISTENER_PREFIX
from broker_runtime.security.tls.tls_settings import NONE, KeyStoreSettings, TlsSettings, TrustStoreSettings

T = TypeVar("T")


def tls_settings_of(values: Mapping[str, Value], listener: str, protocol: SecurityProtocol) -> TlsSettings:
    """Return the TLS settings of a listener, by its name in any case. A value with the listener's prefix wins.

    `values` has the typed values by the names of keys. As in Apache Kafka, ssl.client.auth of a SASL_SSL listener needs
    the prefix.
    """
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."

    def value(key: Key[T]) -> T:
        found: Any = values.get(prefix + key.name, values.get(key.name, key.default))
        return cast("T", found)

    client_auth = value(BrokerConfig.ssl_client_auth)
    if protocol is SecurityProtocol.SASL_SSL:
        own = values.get(prefix + BrokerConfig.ssl_client_auth.name)
        client_auth = own if isinstance(own, str) else NONE
    return TlsSettings(
        keys=KeyStoreSettings(
            prefix=prefix,
            type=value(BrokerConfig.ssl_keystore_type),
            location=value(BrokerConfig.ssl_keystore_location),
            password=value(BrokerConfig.ssl_keystore_password),
            key=value(BrokerConfig.ssl_keystore_key),
            chain=value(BrokerConfig.ssl_keystore_certificate_chain),
            key_password=value(BrokerConfig.ssl_key_password),
        ),
        trust=TrustStoreSettings(
            prefix=prefix,
            type=value(BrokerConfig.ssl_truststore_type),
            location=value(BrokerConfig.ssl_truststore_location),
            password=value(BrokerConfig.ssl_truststore_password),
            certificates=value(BrokerConfig.ssl_truststore_certificates),
        ),
        newest=value(BrokerConfig.ssl_protocol),
        protocols=value(BrokerConfig.ssl_enabled_protocols),
        cipher_suites=value(BrokerConfig.ssl_cipher_suites),
        client_auth=client_auth.lower(),
        principal_rules=value(BrokerConfig.ssl_principal_mapping_rules),
        check_names=bool(value(BrokerConfig.ssl_endpoint_identification_algorithm)),
        server_name=value(BrokerConfig.sluicegate_tls_server_name),
        allow_dn_changes=value(BrokerConfig.ssl_allow_dn_changes),
        allow_san_changes=value(BrokerConfig.ssl_allow_san_changes),
        pem_max_bytes=value(BrokerConfig.sluicegate_tls_pem_max_bytes),
    )
