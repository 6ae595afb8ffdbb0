"""Validate changes of brokers' dynamic configuration: of one broker, or of the default of the whole cluster. Pure.

There are two checks. The first is of each value that is set: the key must be known, dynamic and allowed at this level,
its listener must exist, and the value must be valid. The second is of the resulting configuration, deletions included:
it must not break a rule that it kept before. Results are checked for each broker, and for the default alone, because
the next broker to join may override nothing.
"""

from collections.abc import Collection, Mapping, Sequence

from broker_runtime.config import BrokerConfig, ConfigKey, UpdateMode, Value, broker_key, split_listener_prefix
from broker_runtime.config.in_force.limit_rules import limit_problems, proxy_problem
from broker_runtime.config.keys.broker import LISTENER_PREFIX, hint
from broker_runtime.config.keys.tags import tags_problem
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.image import MetadataImage

Configs = Mapping[str, str]
_MAX_CONNECTIONS = BrokerConfig.max_connections.name


def broker_change_problem(before: Configs, after: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    """Return why the broker's configuration may not change from `before` to `after`; None for a valid change."""
    given = {name: value for name, value in after.items() if before.get(name) != value}
    return (
        _given_problem(given, broker_id, image)
        or (tags_problem(after) if tags_problem(before) is None else None)
        or _result_problem(before, after, broker_id, image)
    )


def _given_problem(given: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    keys = {name: broker_key(name) for name in given}
    fixed = [name for name, key in keys.items() if key is not None and key.mode is UpdateMode.READ_ONLY]
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]"
    # A key that is unknown, or not dynamic (any more), may always be deleted.
    unknown = [name for name, key in keys.items() if key is None]
    if unknown:
        return f"Unknown broker config name: {', '.join(f'{name}{hint(name)}' for name in sorted(unknown))}"
    single = [name for name, key in keys.items() if key is not None and key.mode is UpdateMode.PER_BROKER]
    if single and broker_id is None:
        names = ", ".join(sorted(single))
        return f"Cannot update these configs at default cluster level, broker id must be specified: [{names}]"
    unprefixed = [name for name in given if name.startswith("ssl.")]
    if unprefixed:
        return (
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(sorted(unprefixed))}]"
        )
    return (
        _listener_problem(given, broker_id, image)
        or _value_problem(given, keys)
        or _room_for_brokers_problem(given, broker_id, image)
        or _brokers_listener_problem(given, broker_id, image)
    )


def _listener_problem(given: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    """Reject limits of a listener that no broker has, and none would enforce. This request may add the listener."""
    there = _listeners(image.brokers if broker_id is None else [broker_id], image) | _named(
        given if broker_id is None else {**image.configs.of_broker(broker_id), **given}
    )
    for name in given:
        listener, _ = split_listener_prefix(name)
        if listener is not None and listener not in there:
            whose = "no broker has" if broker_id is None else f"broker {broker_id} does not have"
            return (
                f"Unknown listener in broker config name: {name} ({whose} a listener {listener!r}; names are "
                f"written in lower case, and there are: {', '.join(sorted(there)) or 'none'})"
            )
    return None


def _value_problem(given: Configs, keys: Mapping[str, ConfigKey | None]) -> str | None:
    try:
        for name, key in keys.items():
            if key is not None:
                key.parse(given[name])
    except ConfigError as error:
        return str(error)
    return None


def _room_for_brokers_problem(given: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    """Reject a limit that leaves no connection for brokers, or for the administrator who would raise it again.

    Kafka accepts any number. A broker registers the listener for inter-broker connections as its first. A limit of the
    whole broker applies to that listener only if it is the only one.
    """
    needed = len(image.brokers)
    for one in image.brokers if broker_id is None else [broker_id]:
        listeners = [endpoint.listener.lower() for endpoint in image.brokers[one].endpoints]
        for listener in listeners[:1]:
            own = f"{LISTENER_PREFIX}{listener}.{_MAX_CONNECTIONS}"
            name = own if len(listeners) > 1 or own in given else _MAX_CONNECTIONS
            if name in given and int(given[name]) < needed:
                return (
                    f"Invalid {name} {given[name]}: {needed} brokers and their administrators connect by the "
                    f"listener {listener}; allow {needed} connections or more, or give clients another listener"
                )
    return None


def _brokers_listener_problem(given: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    """Reject a change after which brokers would not find each other, or would be refused.

    A broker that changes its own listeners has more information.
    """
    for one in image.brokers if broker_id is None else [broker_id]:
        for endpoint in image.brokers[one].endpoints[:1]:
            listener = endpoint.listener.lower()
            for key in (BrokerConfig.listeners.name, BrokerConfig.advertised_listeners.name):
                if key in given and listener not in _named({key: given[key]}):
                    return (
                        f"Invalid {key} {given[key]}: brokers connect to each other by the listener {listener}; "
                        "include it"
                    )
            if problem := proxy_problem(given, listener):
                return problem
    return None


def _named(given: Configs) -> frozenset[str]:
    """Return the listeners, in lower case, that the first of these keys in `given` names."""
    keys = (BrokerConfig.listeners, BrokerConfig.advertised_listeners)
    text = next((given[key.name] for key in keys if key.name in given), "")
    return frozenset(item.partition("://")[0].strip().lower() for item in text.split(",") if "://" in item)


def _result_problem(before: Configs, after: Configs, broker_id: int | None, image: MetadataImage) -> str | None:
    """Return the first rule that the change breaks. A rule broken before is ignored, so that it can be repaired."""
    for was, will_be, listeners in _results(before, after, broker_id, image):
        known = limit_problems(_typed(was), listeners)
        for problem in limit_problems(_typed(will_be), listeners):
            if problem not in known:
                return problem.text
    return None


def _results(
    before: Configs, after: Configs, broker_id: int | None, image: MetadataImage
) -> Sequence[tuple[Configs, Configs, Collection[str]]]:
    if broker_id is not None:
        default = image.configs.of_broker(None)
        return [({**default, **before}, {**default, **after}, _listeners([broker_id], image))]
    own = {one: image.configs.of_broker(one) for one in image.brokers}
    alone = (before, after, _listeners(image.brokers, image))
    return [alone, *(({**before, **own[one]}, {**after, **own[one]}, _listeners([one], image)) for one in own)]


def _listeners(brokers: Collection[int], image: MetadataImage) -> frozenset[str]:
    return frozenset(endpoint.listener.lower() for one in brokers for endpoint in image.brokers[one].endpoints)


def _typed(texts: Configs) -> dict[str, Value]:
    """Parse the values; omit stored ones that are no longer valid, as brokers do."""
    values: dict[str, Value] = {}
    for name, text in texts.items():
        key = broker_key(name)
        try:
            values[name] = None if key is None else key.parse(text)
        except ConfigError:
            continue
    return values
