"""Keys of Apache Kafka 4.3 without a meaning for this broker, from unused_keys.txt beside this module.

The broker has no share or Streams groups. Each line of the file has the resource, the
name, the type and the update mode of a key, as in Apache Kafka's own tables; the differential suite compares the lines
with its jars. When this broker begins to use a key, the key moves to the tables of used keys.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from broker_runtime.config.declaring.allowed import OneOf
from broker_runtime.config.declaring.declaration import keys_by_name
from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode

_DOC = "Known to Apache Kafka and not used by this broker; it changes nothing."
_PREFIXED = ("ssl.", "sasl.", "principal.builder.class")
"""Beginnings of keys that a listener may override with its prefix."""
_ALLOWED = {"share.isolation.level": OneOf(("read_committed", "read_uncommitted"))}


@cache
def unused_keys(resource: Literal["broker", "topic", "group"]) -> Mapping[str, ConfigKey]:
    """Return the unused keys of a resource, by name. The file is read at the first call: most brokers never need it."""
    text = Path(__file__).with_name("unused_keys.txt").read_text(encoding="ascii")
    rows = (line.split() for line in text.splitlines())
    return keys_by_name([_key(name, Type[kind], UpdateMode(mode)) for of, name, kind, mode in rows if of == resource])


def _key(name: str, kind: Type, mode: UpdateMode) -> ConfigKey:
    return Key(
        name,
        kind,
        None,
        _DOC,
        _ALLOWED.get(name),
        mode,
        listener_prefixed=name.startswith(_PREFIXED),
        sensitive=kind is Type.PASSWORD,
        used=False,
    )
