"""The names of the ConnectionQuotas that have set limits, as one configuration value."""

import pytest

from broker_runtime.config.declaring.quota_names import quota_names, quota_names_problem


def test_each_limit_has_its_quota() -> None:
    value = "max.connections=shop/all,listener.name.ex_1.max.connections=shop/of-ex.1"
    assert quota_names(value) == {"max.connections": "shop/all", "listener.name.ex_1.max.connections": "shop/of-ex.1"}
    assert quota_names("") == {}
    assert quota_names_problem(value) is None


@pytest.mark.parametrize("value", ["max.connections", "max.connections=all", "=shop/all", "a=b/c/d", "a b=c/d"])
def test_another_form_is_refused_with_the_form(value: str) -> None:
    problem = quota_names_problem(value)
    assert problem is not None
    assert "must be KEY=NAMESPACE/NAME" in problem
    assert value in problem
