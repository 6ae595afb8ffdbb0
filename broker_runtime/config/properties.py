"""Java properties text, as server.properties uses it: `key=value`, `#` and `!` comments, `\\` continuation. Pure."""

from collections.abc import Mapping

from broker_runtime.errors import ConfigError


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Raises ConfigError naming `source` and the line when a line has no key or no separator."""
    values: dict[str, str] = {}
    pending = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = pending + raw.lstrip()
        pending = ""
        if not line.strip() or line[0] in "#!":
            continue
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        at = min((position for position in (line.find("="), line.find(":")) if position >= 0), default=-1)
        if at <= 0:
            raise ConfigError(f"{source}, line {number}: {line.strip()!r} is not of the form key=value")
        values[line[:at].strip()] = line[at + 1 :].strip()
    if pending:
        raise ConfigError(f"{source}: the last line ends with a continuation")
    return values


def render_properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
