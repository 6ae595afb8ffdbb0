"""Which numbers of a `config` must be in order: the broker compares them when it starts.

A key that is not set has the broker's default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sluicegate_operator.api.configs.config_defaults import BROKER_DEFAULTS
from sluicegate_operator.api.schema.config_values import LONG_MAX, VALUE_REFUSED, WholeNumber, cel_list, long
from sluicegate_operator.api.schema.rules import Rule

_INT = WholeNumber(0)
_ADVICE = "keys that config does not set have their defaults"


@dataclass(frozen=True, slots=True)
class Order:
    """Configuration keys whose values must be in an order.

    The values of each chain must not decrease. With `below`, each chain has two keys, and the first value must be less
    than the second. A text that is not a valid `number` counts as the default here, because another rule reports it.
    """

    chains: tuple[tuple[str, ...], ...]
    defaults: Mapping[str, int]
    number: WholeNumber = _INT
    below: bool = False

    @property
    def sign(self) -> str:
        return " < " if self.below else " <= "

    def wrong(self, config: Mapping[str, str]) -> list[tuple[str, ...]]:
        return [chain for chain in self.chains if not self._in_order(self.numbers(config, chain))]

    def numbers(self, config: Mapping[str, str], chain: tuple[str, ...]) -> list[int]:
        return [
            int(config[key]) if key in config and self.number.accepts(config[key]) else self.defaults[key]
            for key in chain
        ]

    def _in_order(self, numbers: list[int]) -> bool:
        return all(low < high or (low == high and not self.below) for low, high in pairwise(numbers))


def _around(name: str) -> tuple[str, ...]:
    return f"group.consumer.min.{name}", f"group.consumer.{name}", f"group.consumer.max.{name}"


def _defaults(*chains: tuple[str, ...]) -> dict[str, int]:
    return {key: int(BROKER_DEFAULTS[key]) for chain in chains for key in chain}


_MINIMUM_BEFORE_MAXIMUM = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    _around("heartbeat.interval.ms"),
    _around("session.timeout.ms"),
    _around("assignment.interval.ms"),
)
_HEARTBEAT_BEFORE_SESSION = ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms")
BROKER_ORDERS = (
    Order(_MINIMUM_BEFORE_MAXIMUM, _defaults(*_MINIMUM_BEFORE_MAXIMUM)),
    Order((_HEARTBEAT_BEFORE_SESSION,), _defaults(_HEARTBEAT_BEFORE_SESSION), below=True),
)
TOPIC_ORDERS = (
    Order(
        (("min.compaction.lag.ms", "max.compaction.lag.ms"),),
        {"min.compaction.lag.ms": 0, "max.compaction.lag.ms": LONG_MAX},
        long(0),
    ),
)
"""The orders of topics' keys. If brokers have other defaults, the brokers' own check decides."""


def config_order_rule(order: Order) -> Rule:
    """Return the rule about an order for a model with a `config`.

    The rule's message names the first chain that is out of order, with its numbers.
    """

    def wrong(model: Any) -> list[tuple[str, ...]]:
        return order.wrong(model.config or {})

    def sentence(model: Any) -> str:
        chain = wrong(model)[0]
        numbers = ", ".join(map(str, order.numbers(model.config or {}, chain)))
        return f"{order.sign.join(chain)} must hold ({numbers}); {_ADVICE}"

    chains = "[" + ", ".join(cel_list(chain) for chain in order.chains) + "]"
    numbers = f"c.map(k, {_number_cel(order)})"
    in_order = f"{numbers}.isSorted()" + (f" && {numbers}.min() < {numbers}.max()" if order.below else "")
    shown = f"c.map(k, string({_number_cel(order)})).join(', ')"
    message_cel = f"c.join('{order.sign}') + ' must hold (' + {shown} + '); {_ADVICE}'"
    return Rule(
        cel=f"!has(self.config) || {chains}.all(c, {in_order})",
        message=f"{VALUE_REFUSED}: it is out of order with the value of another key",
        allows=lambda model: not wrong(model),
        field="config",
        message_cel=f"{chains}.filter(c, !({in_order})).map(c, {message_cel})[0]",
        message_of=sentence,
    )


def _number_cel(order: Order) -> str:
    defaults = ", ".join(f"'{key}': {number}" for key, number in order.defaults.items())
    return f"k in self.config && {order.number.cel('self.config[k]')} ? int(self.config[k]) : {{{defaults}}}[k]"
