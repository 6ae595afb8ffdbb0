"""The adaptive rate of a ConnectionQuota: its bounds, its objective, and the rates that brokers report."""

import re
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from sluicegate_operator.api.schema.metadata import INT_MAX
from sluicegate_operator.api.schema.rules import Model, Rule

OBJECTIVE_MIN_MS = 5
ADAPTED_BROKERS_MAX = 100
_OBJECTIVE_PATTERN = "^([5-9]|[1-9][0-9]{1,4})ms$"
"""Whole milliseconds, at least OBJECTIVE_MIN_MS."""


class RateObjective(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.requestP99.matches('{_OBJECTIVE_PATTERN}')",
            message=f"objective.requestP99 must be whole milliseconds from {OBJECTIVE_MIN_MS}ms to 99999ms, for example"
            f" 20ms; a broker serves one request for up to {OBJECTIVE_MIN_MS} ms, so others wait that long without any"
            " storm",
            allows=lambda objective: re.fullmatch(_OBJECTIVE_PATTERN, objective.request_p99) is not None,
            field="requestP99",
        ),
    )

    request_p99: str = Field(min_length=1, max_length=20)
    """The largest p99 of the time that a request of an established client waits before the broker serves it: 20ms."""

    @property
    def p99_ms(self) -> int:
        return int(self.request_p99.removesuffix("ms"))


class AdaptiveRate(Model):
    rules: ClassVar = (
        Rule(
            cel="self.minRate <= self.maxRate",
            message="adaptive.minRate must be at most adaptive.maxRate",
            allows=lambda adaptive: adaptive.min_rate <= adaptive.max_rate,
            field="minRate",
        ),
    )

    min_rate: int = Field(ge=1, le=INT_MAX)
    """New connections per second that each broker always allows."""
    max_rate: int = Field(ge=1, le=INT_MAX)
    """New connections per second that each broker allows while the objective is kept."""
    objective: RateObjective
    """The latency that the rate protects."""


class BrokerRate(Model):
    """The adaptive rate of one broker."""

    broker_id: int
    """ID of the broker."""
    rate: int
    """New connections per second that the broker allowed when its rate was last written; 2147483647 for no limit."""
    reason: str = Field(default="", max_length=32)
    """Why the broker had this rate then: objective missed, objective kept, steady, quiet, other load, at minimum, or
    start."""
    since: datetime | None = None
    """Time from which the broker has allowed about this rate."""


class AdaptedRates(Model):
    """The adaptive rates of the brokers.

    A rate is written again when it has changed by a factor of 1.5, or reaches a bound.
    """

    summary: str = Field(default="", max_length=64)
    """The lowest and the highest rate of these brokers: 120 to 400/s."""
    brokers: list[BrokerRate] = Field(default=[], max_length=ADAPTED_BROKERS_MAX)
    """The rates by broker; of a large cluster, those of the first 100 by ID."""
