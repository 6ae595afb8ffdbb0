"""sasl.jaas.config of a client: one login module with its options. Pure."""

import re

from kafka_bytes.errors import FormatError

_JAAS = re.compile(r"\s*[\w.$]+\s+required\b(?P<options>.*?);\s*", re.DOTALL)
_OPTION = re.compile(r"\s+(?P<name>[\w.]+)\s*=\s*(?:\"(?P<quoted>(?:\\.|[^\"\\])*)\"|(?P<bare>[^\s\";]+))", re.DOTALL)


def login_options(text: str) -> dict[str, str]:
    """Return the options by name. Raises FormatError, whose text contains no value."""
    module = _JAAS.fullmatch(text)
    if module is None:
        raise FormatError('sasl.jaas.config must be: MODULE required name="value" ...;')
    found: dict[str, str] = {}
    at = 0
    options = module["options"].rstrip()
    while at < len(options):
        option = _OPTION.match(options, at)
        if option is None:
            raise FormatError('sasl.jaas.config has an option that is not name="value"')
        quoted = option["quoted"]
        found[option["name"]] = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = option.end()
    return found
