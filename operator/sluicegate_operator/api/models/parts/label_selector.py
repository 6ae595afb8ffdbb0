"""metav1.LabelSelector as Kubernetes defines it, with its rules; `planning` decides which labels it matches."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.pod_settings import (
    LABEL_KEY_PATTERN,
    LABEL_VALUE_PATTERN,
    LabelValue,
    pairs_rule,
)
from sluicegate_operator.api.schema.rules import Model, Rule

Values = Annotated[tuple[LabelValue, ...], Field(max_length=32)]


class LabelExpression(Model):
    """One requirement, as in metav1.LabelSelectorRequirement."""

    rules: ClassVar = (
        Rule(
            cel=f"self.key.matches('{LABEL_KEY_PATTERN}')",
            message="key must be a label key, for example app.kubernetes.io/name",
            allows=lambda one: re.fullmatch(LABEL_KEY_PATTERN, one.key) is not None,
            field="key",
        ),
        Rule(
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            message="operators In and NotIn need values; Exists and DoesNotExist must not have values",
            allows=lambda one: (one.operator in ("In", "NotIn")) == bool(one.values),
            field="values",
        ),
        Rule(
            cel=f"!has(self.values) || self.values.all(x, x.matches('{LABEL_VALUE_PATTERN}'))",
            message="values must be label values: at most 63 letters, digits, '-', '_' and '.', or empty",
            allows=lambda one: all(re.fullmatch(LABEL_VALUE_PATTERN, value) for value in one.values or ()),
            field="values",
        ),
    )

    key: str = Field(min_length=1, max_length=316)
    """The key of a label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare the label's value, Exists and DoesNotExist check its presence."""
    values: Values | None = None
    """Values for In and NotIn. An object without the label matches NotIn with any values."""


class LabelSelector(Model):
    """Selects objects that meet all conditions; {} selects every object."""

    rules: ClassVar = (pairs_rule("matchLabels", "match_labels", LABEL_VALUE_PATTERN),)

    match_labels: dict[str, LabelValue] | None = Field(default=None, max_length=16)
    """Labels with these values."""
    match_expressions: tuple[LabelExpression, ...] | None = Field(default=None, max_length=8)
    """Further conditions on labels."""
