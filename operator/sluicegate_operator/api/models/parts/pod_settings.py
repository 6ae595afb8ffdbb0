"""Settings of the pods of one role apart from their containers: scheduling, labels and annotations.

The list of fields is closed. Whole pod templates are not accepted: the operator decides what a node needs to work, and
an unforeseen field could break that.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.audit_landing import object_name_rule
from sluicegate_operator.api.schema.config_values import cel_list
from sluicegate_operator.api.schema.metadata import GROUP
from sluicegate_operator.api.schema.rules import Model, Rule

LABEL_KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
)
LABEL_VALUE_PATTERN = "^([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$"
ANY_TEXT = "(?s)^.*$"
OWNED_PATTERN = f"^([-a-z0-9]+[.])*({GROUP.replace('.', '[.]')}|kubernetes[.]io|k8s[.]io)/"
"""The operator and Kubernetes find pods by these keys and act on them."""
ALLOWED_OWNED = ("cluster-autoscaler.kubernetes.io/safe-to-evict",)
"""Keys that users are meant to set, and that the operator does not use."""

Spread = Literal["Preferred", "Required", "None"]
LabelValue = Annotated[str, Field(max_length=63)]


def pairs_rule(field: str, attribute: str, value_pattern: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.all(k, k.matches('{LABEL_KEY_PATTERN}')"
        f" && self.{field}[k].matches('{value_pattern}'))",
        message=f"{field} must have keys and values in the form that Kubernetes accepts, for example example.org/team:"
        " payments",
        allows=lambda model: all(
            re.fullmatch(LABEL_KEY_PATTERN, key) and re.fullmatch(value_pattern, value)
            for key, value in (getattr(model, attribute) or {}).items()
        ),
        field=field,
    )


def _not_owned_rule(field: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field})"
        f" || self.{field}.all(k, !k.matches('{OWNED_PATTERN}') || k in {cel_list(ALLOWED_OWNED)})",
        message=f"{field} must not have keys of the domains {GROUP}, kubernetes.io or k8s.io, which the operator and"
        " Kubernetes use; use a key of your own domain",
        allows=lambda model: (
            not any(re.match(OWNED_PATTERN, key) and key not in ALLOWED_OWNED for key in getattr(model, field) or {})
        ),
        field=field,
    )


class Toleration(Model):
    """A toleration, as in Kubernetes pods."""

    rules: ClassVar = (
        Rule(
            cel="has(self.key) || self.operator == 'Exists'",
            message="a toleration without key matches every taint: set operator Exists, or name the key",
            allows=lambda one: one.key is not None or one.operator == "Exists",
            field="operator",
        ),
        Rule(
            cel="self.operator != 'Exists' || !has(self.value)",
            message="operator Exists matches every value: remove value, or set operator Equal",
            allows=lambda one: one.operator != "Exists" or one.value is None,
            field="value",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds is only for effect NoExecute",
            allows=lambda one: one.toleration_seconds is None or one.effect == "NoExecute",
            field="tolerationSeconds",
        ),
        Rule(
            cel=f"!has(self.key) || self.key.matches('{LABEL_KEY_PATTERN}')",
            message="key must be the key of a taint, for example dedicated or example.org/dedicated",
            allows=lambda one: one.key is None or re.fullmatch(LABEL_KEY_PATTERN, one.key) is not None,
            field="key",
        ),
        Rule(
            cel=f"!has(self.value) || self.value.matches('{LABEL_VALUE_PATTERN}')",
            message="value must be the value of a taint: letters, digits, '-', '_' and '.'",
            allows=lambda one: one.value is None or re.fullmatch(LABEL_VALUE_PATTERN, one.value) is not None,
            field="value",
        ),
    )

    key: str | None = Field(default=None, min_length=1, max_length=317)
    """The taint's key; every taint if absent."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal compares the value, Exists does not."""
    value: LabelValue | None = None
    """The taint's value; empty if absent."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; every effect if absent."""
    toleration_seconds: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Seconds for which a pod stays on a node that gets the taint; for ever if absent."""


class PodSettings(Model):
    rules: ClassVar = (
        pairs_rule("nodeSelector", "node_selector", LABEL_VALUE_PATTERN),
        pairs_rule("labels", "labels", LABEL_VALUE_PATTERN),
        pairs_rule("annotations", "annotations", ANY_TEXT),
        _not_owned_rule("labels"),
        _not_owned_rule("annotations"),
        object_name_rule("priorityClassName", "PriorityClass"),
    )

    spread: Spread = "Preferred"
    """Whether pods of one role share a Kubernetes node. Preferred places them on different nodes if there are enough.
    Required never places two on one node; pods without a node wait. None leaves it to the scheduler."""
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=16)] | None = None
    """Labels that a Kubernetes node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] | None = None
    """Taints of Kubernetes nodes that these pods tolerate."""
    priority_class_name: str | None = Field(default=None, min_length=1, max_length=253)
    """PriorityClass of the pods; the default one of the Kubernetes cluster if absent."""
    labels: Annotated[dict[str, LabelValue], Field(max_length=16)] | None = None
    """Further labels of the pods, with keys under a domain of your own."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=16)] | None = None
    """Further annotations of the pods, with keys under a domain of your own."""
