"""Match labels with LabelSelectors as Kubernetes does, and choose the labels to index a selector by. Pure."""

from collections.abc import Mapping

from sluicegate_operator.api.models.parts.label_selector import LabelExpression, LabelSelector

Pair = tuple[str, str]


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels matches the selector."""
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    expressions = selector.match_expressions
    return not expressions or all(_holds(expression, labels) for expression in expressions)


def _holds(expression: LabelExpression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in (expression.values or ())
        case "NotIn":
            return value is None or value not in (expression.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


def one_of(selector: LabelSelector) -> frozenset[Pair]:
    """Return labels of which every matching object has at least one; empty without such labels."""
    choices = [frozenset({pair}) for pair in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        if expression.operator == "In":
            choices.append(frozenset((expression.key, value) for value in expression.values or ()))
    return min(choices, key=len, default=frozenset())
