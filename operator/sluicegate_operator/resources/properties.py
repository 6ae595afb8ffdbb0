"""Write server.properties in order of key, so that equal properties are equal files. `kafka_bytes` has the format."""

from collections.abc import Mapping

from kafka_bytes import properties


def render_properties(values: Mapping[str, str]) -> str:
    """Return the text of a properties file. A value is always one line, and never becomes a key."""
    return properties.render_properties(dict(sorted(values.items())))
