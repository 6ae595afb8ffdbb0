"""The value of sluicegate.connection.quota.names: which ConnectionQuota has set a limit. Pure."""

import re

from broker_runtime.config.declaring.definition import Value
from broker_runtime.errors import ConfigError

_ITEM = re.compile(r"([A-Za-z0-9._-]{1,512})=([a-z0-9.-]{1,253}/[a-z0-9.-]{1,253})")
_FORM = "must be KEY=NAMESPACE/NAME, several separated by commas"


def quota_names(value: Value) -> dict[str, str]:
    """Parse `KEY=NAMESPACE/NAME,...`: the ConnectionQuota of each limit, by the key of the limit.

    Raises ConfigError, whose text describes the allowed values, for anything else.
    """
    found: dict[str, str] = {}
    for item in filter(None, str(value or "").split(",")):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ConfigError(f"{_FORM}; {item[:100]} does not have that form")
        key, name = match.groups()
        found[key] = name
    return found


def quota_names_problem(value: Value) -> str | None:
    """Return why `quota_names` refuses the value: the validator in the table of keys."""
    try:
        quota_names(value)
    except ConfigError as error:
        return str(error)
    return None
