"""--command-config: a file of Kafka's client properties, as for Kafka's own tools.

Kafka's names are used, and certificates are PEM. Keys that a command does not need are ignored, as Kafka does. No error
text contains a value of the file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from kafka_bytes.errors import FormatError
from kafka_bytes.properties import parse_properties
from kafka_bytes.sasl.login import login_module
from kafka_bytes.sasl.mechanisms import OAUTHBEARER
from sluicegate_operator.kafka_admin.security.client_security import (
    MECHANISMS,
    PLAINTEXT,
    ClientSecurity,
    SaslSettings,
    SecurityError,
    TlsSettings,
)

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="File of Kafka's client properties: security.protocol, sasl.*, ssl.* with PEM files.",
    ),
]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class CommandConfigError(ValueError):
    """Error for a file of client properties that cannot be used. The message names the key and says what to do."""


def read_command_config(path: Path | None) -> ClientSecurity:
    """Return the security settings in the file; PLAINTEXT without a file. Raises CommandConfigError."""
    if path is None:
        return PLAINTEXT
    try:
        found = client_security(_properties(path.read_text(encoding="utf-8")))
        found.check()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandConfigError(f"--command-config {path}: {reason}") from None
    except (CommandConfigError, SecurityError) as error:
        raise CommandConfigError(f"--command-config {path}: {error}") from None
    return found


def _properties(text: str) -> dict[str, str]:
    try:
        return parse_properties(text, "file")
    except FormatError as error:
        # The error's text has the line, which may contain a secret.
        line = re.search(r"line \d+", str(error))
        raise CommandConfigError(f"{line[0] if line else 'the last line'} does not have the form key=value") from None


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Return the security settings in Kafka's client properties. Raises CommandConfigError."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise CommandConfigError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    tls = _tls(properties) if protocol.endswith("SSL") else None
    return ClientSecurity(tls, _sasl(properties) if protocol.startswith("SASL") else None)


def _tls(properties: Mapping[str, str]) -> TlsSettings:
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        raise CommandConfigError("ssl.endpoint.identification.algorithm must be https: names are always checked")
    if properties.get("ssl.key.password") or properties.get("ssl.keystore.password"):
        raise CommandConfigError("ssl.key.password and ssl.keystore.password are not supported: use an unencrypted key")
    authorities = properties.get("ssl.truststore.certificates") or _pem(properties, "truststore")
    both = _pem(properties, "keystore")
    certificate = properties.get("ssl.keystore.certificate.chain") or both
    key = properties.get("ssl.keystore.key") or both
    if bool(certificate) != bool(key):
        raise CommandConfigError("set both ssl.keystore.certificate.chain and ssl.keystore.key, or neither")
    return TlsSettings(authorities, certificate, key)


def _pem(properties: Mapping[str, str], store: str) -> str:
    location = properties.get(f"ssl.{store}.location")
    if not location:
        return ""
    if properties.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
        raise CommandConfigError(
            f"ssl.{store}.type must be PEM: convert the store, for example with keytool and openssl, and set the type"
        )
    try:
        return Path(location).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise CommandConfigError(f"ssl.{store}.location {location}: {reason}") from None


def _sasl(properties: Mapping[str, str]) -> SaslSettings:
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise CommandConfigError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism}")
    try:
        options = login_module(properties.get("sasl.jaas.config", "")).options
    except FormatError as error:
        raise CommandConfigError(str(error)) from None
    if mechanism == OAUTHBEARER:
        if "token" not in options:
            raise CommandConfigError('sasl.jaas.config needs the option token="...", an access token, for OAUTHBEARER')
        return SaslSettings(mechanism, token=options["token"])
    if "username" not in options or "password" not in options:
        raise CommandConfigError('sasl.jaas.config needs the options username="..." and password="..."')
    return SaslSettings(mechanism, options["username"], options["password"])
