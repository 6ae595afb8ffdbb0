"""--command-config: a file of Kafka's client properties, for librdkafka and for Spark's connector.

Kafka's names are used, and certificates are PEM. Keys that the connection does not need are ignored, as Kafka does. No
error text and no repr contains a value of the file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from audit_pipeline.errors import BadUseError
from kafka_bytes.errors import FormatError
from kafka_bytes.properties import parse_properties
from kafka_bytes.sasl.login import login_module

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KEPT: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
)
_LIBRDKAFKA: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
    "ssl.key.password": ("ssl.key.password",),
}
"""Names of librdkafka for Kafka's. A key store in PEM has the certificates and the key in one file."""


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The properties of a secured connection, for each of the two Kafka clients; empty for PLAINTEXT."""

    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)


PLAINTEXT: Final = ClientProperties()


def read_client_properties(path: Path | None) -> ClientProperties:
    """Return the client properties in the file; PLAINTEXT without a file. Raises BadUseError."""
    if path is None:
        return PLAINTEXT
    try:
        return client_properties(parse_properties(path.read_text(encoding="utf-8"), "file"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
    except FormatError as error:
        # Its text has the line, which may contain a secret.
        line = re.search(r"line \d+", str(error))
        reason = f"{line[0] if line else 'the last line'} does not have the form key=value"
    except BadUseError as error:
        reason = str(error)
    raise BadUseError(f"--command-config {path}: {reason}")


def client_properties(given: Mapping[str, str]) -> ClientProperties:
    """Return Kafka's client properties in the spelling of librdkafka and in that of Spark. Raises BadUseError."""
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise BadUseError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}")
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    librdkafka = {"security.protocol": protocol}
    kafka = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        _check_tls(given)
        stores = {name: given[name] for name in _KEPT if given.get(name)}
        kafka |= stores
        librdkafka |= {theirs: stores[name] for name in stores for theirs in _LIBRDKAFKA.get(name, ())}
        librdkafka["ssl.endpoint.identification.algorithm"] = "https"
    if protocol.startswith("SASL"):
        mechanism, username, password = _login(given)
        librdkafka |= {"sasl.mechanism": mechanism, "sasl.username": username, "sasl.password": password}
        kafka |= {"sasl.mechanism": mechanism, "sasl.jaas.config": given["sasl.jaas.config"]}
    return ClientProperties(librdkafka, {f"kafka.{name}": value for name, value in kafka.items()})


def _check_tls(given: Mapping[str, str]) -> None:
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        raise BadUseError("ssl.endpoint.identification.algorithm must be https: names are always checked")
    if given.get("ssl.keystore.password") or given.get("ssl.truststore.password"):
        raise BadUseError("passwords of stores are not supported: use PEM files, and ssl.key.password for the key")
    for store in ("truststore", "keystore"):
        in_pem = given.get(f"ssl.{store}.type", "JKS").upper() == "PEM"
        has_text = given.get(f"ssl.{store}.certificates") or given.get(f"ssl.{store}.key")
        if (given.get(f"ssl.{store}.location") or has_text) and not in_pem:
            raise BadUseError(f"ssl.{store}.type must be PEM: convert the store with keytool and openssl, and set it")


def _login(given: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise BadUseError(f"sasl.mechanism must be one of {', '.join(_MECHANISMS)}")
    try:
        options = login_module(given.get("sasl.jaas.config", "")).options
    except FormatError as error:
        raise BadUseError(str(error)) from None
    if "username" not in options or "password" not in options:
        raise BadUseError('sasl.jaas.config needs the options username="..." and password="..."')
    return mechanism, options["username"], options["password"]
