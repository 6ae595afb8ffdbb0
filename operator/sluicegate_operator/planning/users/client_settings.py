"""The settings with which clients connect to a listener with TLS or SCRAM, as texts to copy. Pure.

Passwords are in client.properties and librdkafka.properties only. The Python settings read the password from its file,
so that they can be printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_bytes.properties import render_properties

JAVA, LIBRDKAFKA, PYTHON = "client.properties", "librdkafka.properties", "settings.py"
MECHANISM = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class SecureClient:
    """The settings of one client of a listener.

    `authorities` and `password_file` are paths; empty without TLS or without a user.
    """

    bootstrap: str
    protocol: str
    authorities: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    login: str = field(default="", repr=False)
    """The value of sasl.jaas.config for Kafka's own clients."""
    password_file: str = ""


def settings_files(client: SecureClient) -> Mapping[str, str]:
    """Return the text of each file by its name."""
    return {JAVA: _java(client), LIBRDKAFKA: _librdkafka(client), PYTHON: python_settings(client)}


def _java(client: SecureClient) -> str:
    values = {"bootstrap.servers": client.bootstrap, "security.protocol": client.protocol}
    if client.authorities:
        values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": client.authorities}
    if client.user:
        values |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": client.login}
    return render_properties(values)


def _librdkafka(client: SecureClient) -> str:
    values = {"bootstrap.servers": client.bootstrap, "security.protocol": client.protocol}
    if client.authorities:
        values["ssl.ca.location"] = client.authorities
    if client.user:
        values |= {"sasl.mechanism": MECHANISM, "sasl.username": client.user, "sasl.password": client.password}
    return "".join(f"{key}={value}\n" for key, value in values.items())


def python_settings(client: SecureClient) -> str:
    """Return the settings of confluent-kafka and kafka-python, as Python without a password."""
    confluent = {"bootstrap.servers": client.bootstrap, "security.protocol": client.protocol}
    other: dict[str, object] = {"bootstrap_servers": client.bootstrap.split(","), "security_protocol": client.protocol}
    if client.authorities:
        confluent["ssl.ca.location"] = other["ssl_cafile"] = client.authorities
    if client.user:
        confluent |= {"sasl.mechanism": MECHANISM, "sasl.username": client.user}
        other |= {"sasl_mechanism": MECHANISM, "sasl_plain_username": client.user}
    lines = []
    if client.user:
        lines += ["from pathlib import Path", "", f"password = Path({client.password_file!r}).read_text()"]
    lines += _assigned("confluent_kafka", confluent, '"sasl.password": password' if client.user else "")
    lines += _assigned("kafka_python", other, '"sasl_plain_password": password' if client.user else "")
    return "\n".join(lines) + "\n"


def _assigned(name: str, values: Mapping[str, object], last: str) -> list[str]:
    entries = [f'"{key}": {value!r}' for key, value in values.items()] + ([last] if last else [])
    return [f"{name} = {{", *(f"    {entry}," for entry in entries), "}"]
