"""Requests and limits of a container, as in Kubernetes."""

from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate_operator.api.schema.config_values import cel_list
from sluicegate_operator.api.schema.quantities import QUANTITY_PATTERN, Quantity, amount, is_quantity
from sluicegate_operator.api.schema.rules import Model, Rule

ResourceAmounts = Annotated[dict[str, Quantity], Field(max_length=16)]


def _amounts_rule(field: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.all(k, self.{field}[k].matches('{QUANTITY_PATTERN}'))",
        message=f"{field} must have Kubernetes quantities as strings, for example cpu: 500m or memory: 1Gi",
        allows=lambda model: all(is_quantity(text) for text in (getattr(model, field) or {}).values()),
        field=field,
    )


_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def _names_rule(field: str) -> Rule:
    """Return the rule for names that the API server would refuse, but only when the pods' StatefulSet is created."""
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.all(k, k in {cel_list(_RESOURCES)}"
        " || k.startsWith('hugepages-') || k.contains('/'))",
        message=f"{field} must name {', '.join(_RESOURCES)}, hugepages-SIZE or a resource with a domain name, for"
        " example vendor.example/device",
        allows=lambda model: all(
            name in _RESOURCES or name.startswith("hugepages-") or "/" in name for name in getattr(model, field) or {}
        ),
        field=field,
    )


def _requests_are_within_limits(model: "Resources") -> bool:
    requests, limits = model.requests or {}, model.limits or {}
    if not all(is_quantity(text) for text in (*requests.values(), *limits.values())):
        # The rules above report it.
        return True
    return all(amount(text) <= amount(limits[name]) for name, text in requests.items() if name in limits)


class Resources(Model):
    rules: ClassVar = (
        _amounts_rule("requests"),
        _amounts_rule("limits"),
        _names_rule("requests"),
        _names_rule("limits"),
        Rule(
            cel="!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits)"
            " || !isQuantity(self.requests[k]) || !isQuantity(self.limits[k])"
            " || quantity(self.requests[k]).compareTo(quantity(self.limits[k])) <= 0)",
            message="requests must not exceed limits: lower the request or raise the limit",
            allows=_requests_are_within_limits,
            field="requests",
        ),
    )

    requests: ResourceAmounts | None = None
    """Resources with which a pod is scheduled, for example cpu: 500m."""
    limits: ResourceAmounts | None = None
    """Maximum resources that a pod may use, for example memory: 1Gi."""
