"""Reads properties files with the errors of the configuration. Pure; `kafka_bytes.properties` has the format."""

from broker_runtime.errors import ConfigError
from kafka_bytes import properties
from kafka_bytes.errors import FormatError


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Return the values of a properties file by key.

    Raises ConfigError with `source` and the line when a line has no key, no value or half an escape.
    """
    try:
        return properties.parse_properties(text, source)
    except FormatError as error:
        raise ConfigError(str(error)) from None
