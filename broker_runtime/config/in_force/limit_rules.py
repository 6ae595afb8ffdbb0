"""Rules for a whole configuration of connection limits, which concern several keys together. Pure.

The controller checks them before it stores a change, for the cluster's default and for each broker. A broker checks
them again before it applies what is stored, because only the broker knows its own file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from broker_runtime.config.declaring.definition import Value
from broker_runtime.config.keys.broker import LISTENER_PREFIX, BrokerConfig, split_listener_prefix

ADAPTIVE_P99 = BrokerConfig.connection_quota_adaptive_p99_ms.name
ADAPTIVE_MIN_RATE = BrokerConfig.connection_quota_adaptive_min_rate.name
SCOPE = BrokerConfig.connection_quota_scope.name
CLUSTER_SCOPE = "cluster"
"""Value of connection.quota.scope: the rate is that of all brokers together."""
LISTENER_LIMITS = (BrokerConfig.max_connections.name, BrokerConfig.max_connection_creation_rate.name)
PER_IP = BrokerConfig.max_connections_per_ip.name
PER_IP_OVERRIDES = BrokerConfig.max_connections_per_ip_overrides.name


@dataclass(frozen=True, slots=True)
class LimitProblem:
    """A rule about configuration values that the limits of connections violate.

    `keys` are those that cause the problem, alone or together.

    If `one_is_enough`, the values without the first of these keys fulfil the rule.
    """

    keys: tuple[str, ...]
    text: str
    one_is_enough: bool = False


def limit_problems(values: Mapping[str, Value], listeners: Collection[str]) -> Sequence[LimitProblem]:
    """Return the violated rules of `values`, which are typed; missing keys have no value.

    `listeners` are lower-case names.
    """
    found = [problem for base in LISTENER_LIMITS for problem in _listener_problems(base, values, listeners)]
    for prefix in _prefixes(values, listeners):
        found += [*_adaptive_problems(prefix, values), *_scope_problems(prefix, values)]
    if values.get(PER_IP) == 0 and not values.get(PER_IP_OVERRIDES):
        text = f"{PER_IP} can be set to zero only if {PER_IP_OVERRIDES} property is set."
        found.append(LimitProblem((PER_IP, PER_IP_OVERRIDES), text))
    return found


def _listener_problems(base: str, values: Mapping[str, Value], listeners: Collection[str]) -> Sequence[LimitProblem]:
    """Return the problems of listeners' limits.

    Each limit must be above zero, even one from the broker-wide key, as in Kafka.
    """
    named = [name for name in values if split_listener_prefix(name)[1] == base != name]
    names = dict.fromkeys([*named, *(f"{LISTENER_PREFIX}{listener}.{base}" for listener in sorted(listeners))])
    found = []
    for name in names:
        value = values.get(name, values.get(base))
        if isinstance(value, int) and value <= 0:
            found.append(LimitProblem((name, base), f"Invalid {base} {value}"))
    return found


def _prefixes(values: Mapping[str, Value], listeners: Collection[str]) -> Sequence[str]:
    """Return the prefixes of keys: none for the broker's, and those of `listeners` and of listeners with values."""
    named = [name for name in map(split_listener_prefix, values) if name[0] is not None]
    names = dict.fromkeys([*sorted(listeners), *(listener for listener, _ in named)])
    return ["", *(f"{LISTENER_PREFIX}{name}." for name in names)]


def _adaptive_problems(prefix: str, values: Mapping[str, Value]) -> Sequence[LimitProblem]:
    """Return the problem of an adaptive rate whose minimum exceeds its maximum."""
    if not values.get(prefix + ADAPTIVE_P99):
        return []
    rate = BrokerConfig.max_connection_creation_rate.name
    least, most = (values.get(prefix + key, values.get(key)) for key in (ADAPTIVE_MIN_RATE, rate))
    if not isinstance(least, int) or not isinstance(most, int) or least <= most:
        return []
    keys = tuple(dict.fromkeys((prefix + ADAPTIVE_MIN_RATE, ADAPTIVE_MIN_RATE, prefix + rate, rate)))
    text = f"Invalid {prefix}{ADAPTIVE_MIN_RATE} {least}: must be at most {prefix}{rate}, which is {most}"
    # Without the objective, the maximum remains as a fixed limit.
    return [LimitProblem((prefix + ADAPTIVE_P99, *keys), text, one_is_enough=True)]


def _scope_problems(prefix: str, values: Mapping[str, Value]) -> Sequence[LimitProblem]:
    """Return the problem of a rate of the cluster that is also to adapt on each broker."""
    if values.get(prefix + SCOPE) != CLUSTER_SCOPE or not values.get(prefix + ADAPTIVE_P99):
        return []
    text = (
        f"Invalid {prefix}{SCOPE} {CLUSTER_SCOPE}: {prefix}{ADAPTIVE_P99} is set, and each broker adapts its rate "
        "alone; remove one of the two"
    )
    # Without the objective, the rate of the cluster remains.
    return [LimitProblem((prefix + ADAPTIVE_P99, prefix + SCOPE), text, one_is_enough=True)]


def proxy_key(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener}.{BrokerConfig.proxy_protocol_trusted.name}"


def proxy_problem(values: Mapping[str, object], inter_broker: str) -> str | None:
    """Return the problem of a proxy header on the listener `inter_broker` (in lower case), or None.

    Brokers and the operator connect to this listener directly, and send no PROXY header.
    """
    name = proxy_key(inter_broker)
    if not values.get(name):
        return None
    return f"Invalid {name}: brokers connect to each other by this listener, and would be refused; use another listener"
