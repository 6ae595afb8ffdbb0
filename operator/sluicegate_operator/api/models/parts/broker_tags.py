"""Tags of brokers, which brokers publish to clients through BrokerMetadata (docs/reference/broker-metadata.md).

Names and bounds are the broker's. They are repeated here, like those of config_keys; a unit test compares both.
"""

import re
from typing import Annotated, Any

from pydantic import Field

from sluicegate_operator.api.models.parts.pod_settings import LABEL_KEY_PATTERN
from sluicegate_operator.api.schema.config_values import cel_list
from sluicegate_operator.api.schema.rules import Rule

TAG_PREFIX = "tag."
"""Prefix of the configuration key that sets a tag."""
NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
VALUE_MAX = 256
VALUE_PATTERN = "^[!-~]([ -~]{0,254}[!-~])?$"
"""Stricter than brokers, which accept more than ASCII.

They count bytes, which CEL cannot, and trim spaces at both ends.
"""
BUILT_IN_TAGS = (
    "broker.id",
    "broker.version",
    "broker.version.int",
    "compression.codecs",
    "message.max.bytes",
    "message.formats",
    "endpoints",
)
"""Tags that each broker sets itself; users may not set them."""
VERSION_TAG = "broker.version"

Tags = Annotated[dict[str, Annotated[str, Field(max_length=VALUE_MAX)]], Field(max_length=32)]
"""Half of the tags of each kind that brokers accept: the rest is for tags set by hand and for tags being removed."""
TagsFromNodeLabels = Annotated[dict[str, Annotated[str, Field(max_length=317)]], Field(max_length=16)]


def tag_rules() -> tuple[Rule, ...]:
    """Return the rules of a model with `tags` and `tagsFromNodeLabels`."""
    return (
        Rule(
            cel=f"({_keys_cel('tags')} + {_keys_cel('tagsFromNodeLabels')}).all(k,"
            f" k.matches('{NAME_PATTERN}') && !(k in {cel_list(BUILT_IN_TAGS)}))",
            message="names of tags must be 1 to 128 letters, digits and '._/-', begin with a letter or digit, and not"
            " be names that brokers use themselves (docs/reference/broker-metadata.md)",
            allows=lambda model: all(
                re.fullmatch(NAME_PATTERN, name) and name not in BUILT_IN_TAGS
                for name in (*_tags(model), *_labels(model))
            ),
        ),
        Rule(
            cel=f"!has(self.tags) || self.tags.all(k, self.tags[k].matches('{VALUE_PATTERN}'))",
            message="values of tags must be 1 to 256 printable ASCII characters, without a space at either end",
            allows=lambda model: all(re.fullmatch(VALUE_PATTERN, value) for value in _tags(model).values()),
            field="tags",
        ),
        Rule(
            cel="!has(self.tagsFromNodeLabels) || self.tagsFromNodeLabels.all(k,"
            f" self.tagsFromNodeLabels[k].matches('{LABEL_KEY_PATTERN}') && !(has(self.tags) && k in self.tags))",
            message="tagsFromNodeLabels must map tags to node labels, for example zone: topology.kubernetes.io/zone,"
            " without a tag that is in tags",
            allows=lambda model: all(
                re.fullmatch(LABEL_KEY_PATTERN, label) and name not in _tags(model)
                for name, label in _labels(model).items()
            ),
            field="tagsFromNodeLabels",
        ),
    )


def tag_key(name: str) -> str:
    return f"{TAG_PREFIX}{name}"


def _keys_cel(field: str) -> str:
    return f"(has(self.{field}) ? self.{field}.map(k, k) : [])"


def _tags(model: Any) -> dict[str, str]:
    return model.tags or {}


def _labels(model: Any) -> dict[str, str]:
    return model.tags_from_node_labels or {}
