"""ObserverPlugin: an observer of the requests and connections of a cluster's brokers (KIP-388)."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.schema.config_values import config_key_rule
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, Rule, cluster_ref_stays

BUILT_IN = ("audit-log", "json-log", "prometheus")
NAME_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
CLASS_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)+$"
KEY_PATTERN = "^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$"
_SECRET_PATTERN = "(password|secret|token|hash[.]key)$"
"""Brokers hide the values of such keys, so the operator could not check whether they are in force."""
_OWN_PATTERN = "^(class|budget[.]us|filter[.].*)$"
_NAME_MESSAGE = "must be 1 to 64 letters, digits, '_' and '-', other than class"
STATES_MAX = 100

_MODULE_CLASS = "^[A-Za-z_][A-Za-z0-9_]{0,62}[.][A-Za-z_][A-Za-z0-9_]*$"
_Item = Annotated[str, Field(min_length=1, max_length=249)]
_Items = Annotated[tuple[_Item, ...], Field(max_length=100)]
_ITEM_PATTERN = "^[^, ]([^,]*[^, ])?$"
_LISTS = ("apiKeys", "listeners", "principals", "topicPrefixes")


def is_observer_name(text: str) -> bool:
    return re.fullmatch(NAME_PATTERN, text) is not None and text != "class"


class ObserverFilter(Model):
    """The requests and connections that the observer receives; an absent list selects all of them."""

    rules: ClassVar = (
        Rule(
            cel=" && ".join(
                f"(!has(self.{name}) || self.{name}.all(x, x.matches('{_ITEM_PATTERN}')))" for name in _LISTS
            ),
            message="an item of a filter must not contain a comma, or begin or end with a space",
            allows=lambda model: all(
                re.fullmatch(_ITEM_PATTERN, item) for items in model.lists for item in items or ()
            ),
        ),
    )

    api_keys: _Items | None = None
    """APIs by Kafka's names (Produce) or numbers."""
    listeners: _Items | None = None
    """spec.name of BrokerListeners."""
    principals: _Items | None = None
    """Principals, such as User:ANONYMOUS."""
    topic_prefixes: _Items | None = None
    """Prefixes of topic names: selects requests and responses that name such a topic."""

    @property
    def lists(self) -> tuple[_Items | None, ...]:
        return (self.api_keys, self.listeners, self.principals, self.topic_prefixes)


class ConfigMapSource(Model):
    name: str = Field(min_length=1, max_length=253)
    """Name of a ConfigMap in the same namespace. Its key MODULE.py is the module of spec.class, of at most 48 KiB; its
    other keys are ignored."""


class WheelSource(Model):
    file: str = Field(min_length=5, max_length=200)
    """Name of the wheel; it must be one of observers.wheels.files of the BrokerCluster."""


class ObserverSource(Model):
    """The place from which the class is loaded; the brokers' image if neither field is set."""

    rules: ClassVar = (
        Rule(
            cel="!(has(self.configMap) && has(self.wheel))",
            message="a class comes from one place: set configMap or wheel, not both",
            allows=lambda source: source.config_map is None or source.wheel is None,
        ),
    )

    config_map: ConfigMapSource | None = None
    """A module in a ConfigMap. It runs with the rights of the brokers, so the BrokerCluster must set
    observers.allowConfigMapCode: true."""
    wheel: WheelSource | None = None
    """A wheel on the volume that the BrokerCluster has for observers."""


class ObserverPluginSpec(Model):
    """One observer that the brokers of a cluster load, with its settings."""

    rules: ClassVar = (
        Rule(
            cel="!has(self.source) || !has(self.source.configMap)"
            f" || (has(self.class) && self.class.matches('{_MODULE_CLASS}'))",
            message="a ConfigMap has one module: set class to module.Class, and put the module into the key module.py",
            allows=lambda spec: (
                spec.config_map_name is None or re.fullmatch(_MODULE_CLASS, spec.class_name or "") is not None
            ),
        ),
        Rule(
            cel="has(self.class) != has(self.builtIn)",
            message="set exactly one of class (package.module.Class) and builtIn",
            allows=lambda spec: (spec.class_name is None) != (spec.built_in is None),
        ),
        Rule(
            cel=f"!has(self.class) || self.class.matches('{CLASS_PATTERN}')",
            message="class must be package.module.Class, the path by which Python imports it",
            allows=lambda spec: spec.class_name is None or re.fullmatch(CLASS_PATTERN, spec.class_name) is not None,
            field="class",
        ),
        Rule(
            cel=f"!has(self.name) || (self.name.matches('{NAME_PATTERN}') && self.name != 'class')",
            message=f"name {_NAME_MESSAGE}",
            allows=lambda spec: spec.name is None or is_observer_name(spec.name),
            field="name",
        ),
        Rule(
            cel="!has(self.builtIn) || self.builtIn != 'audit-log' || !has(self.filter)",
            message="audit-log records all requests and has no filter: exclude requests by config (exclude.topics,"
            " exclude.listeners, exclude.principals)",
            allows=lambda spec: spec.built_in != "audit-log" or spec.filter is None,
            field="filter",
        ),
        config_key_rule(
            f"!k.matches('{KEY_PATTERN}') || k.size() > 128",
            lambda key: re.fullmatch(KEY_PATTERN, key) is None or len(key) > 128,
            "a key that is not a valid name",
            "keys must be words of letters, digits, _ and -, separated by dots",
        ),
        config_key_rule(
            f"k.matches('{_OWN_PATTERN}')",
            lambda key: re.fullmatch(_OWN_PATTERN, key) is not None,
            "a key that has its own field in spec",
            "use spec.class, spec.budgetMicroseconds or spec.filter",
        ),
        config_key_rule(
            f"k.matches('{_SECRET_PATTERN}')",
            lambda key: re.search(_SECRET_PATTERN, key) is not None,
            "a key whose value is secret",
            "do not put secrets into this object; name a Secret in observers.secretNames of the BrokerCluster"
            " and let the observer read its file (for the audit log: hash.key.file)",
        ),
    )
    transitions: ClassVar = (cluster_ref_stays("delete this ObserverPlugin and create a new one"),)

    cluster_ref: ClusterRef
    """The BrokerCluster whose brokers load the observer."""
    name: str | None = Field(default=None, min_length=1, max_length=64)
    """The observer's name in the brokers' configuration, log and metrics, if it differs from metadata.name."""
    class_name: str | None = Field(default=None, alias="class", min_length=3, max_length=512)
    """The observer's class as package.module.Class, which must be in the brokers' image unless source names another
    place."""
    built_in: Literal["audit-log", "json-log", "prometheus"] | None = None
    """An observer that every broker has."""
    source: ObserverSource | None = None
    """Where the class is loaded from; the brokers' image if absent."""
    config: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=50)] | None = None
    """Configuration of the observer, with strings as values. Do not use it for secrets: every user who may read the
    brokers' configuration sees it."""
    filter: ObserverFilter | None = None
    """The requests and connections that the observer receives; all if absent. Filtered ones cost next to nothing."""
    budget_microseconds: int | None = Field(default=None, ge=1, le=1_000_000)
    """Time limit of one call, in microseconds; sluicegate.observer.budget.us of the brokers if absent. An observer that
    repeatedly takes longer is suspended for a while."""
    enabled: bool = True
    """While false, no broker has the observer."""

    @property
    def wheel(self) -> str | None:
        """File name of the wheel that has the class."""
        return self.source.wheel.file if self.source and self.source.wheel else None

    @property
    def config_map_name(self) -> str | None:
        """Name of the ConfigMap that has the class."""
        return self.source.config_map.name if self.source and self.source.config_map else None


class BrokerObserverState(Model):
    """The state of the observer on one broker."""

    model_config = Status.model_config

    broker_id: int
    """Kafka's id of the broker."""
    state: str = Field(max_length=32)
    """Loaded, Loading, Suspended, Failed, or Unknown if the broker does not report it."""
    message: str = Field(default="", max_length=1024)
    """The reason that the broker reports: the first line of an exception, errors, what was dropped."""


class ObserverPluginStatus(Status):
    observes: str = Field(default="", max_length=512)
    """The class of the observer, or the name of a built-in one."""
    state: str = Field(default="", max_length=32)
    """Loaded if all brokers have it; otherwise the worst state of a broker: Failed, Suspended, Unknown, Loading."""
    delivery: str = Field(default="", max_length=32)
    """How a change reaches the brokers: Live, or Roll while they are restarted because they lack code."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that have loaded its current version, of those that should: 3/3."""
    broker_states: tuple[BrokerObserverState, ...] = Field(default=(), max_length=STATES_MAX)
    """The state on each broker, those with problems first."""


class ObserverPlugin(Resource):
    """An observer of requests and connections, loaded by every broker of a cluster without a restart."""

    plural: ClassVar = "observerplugins"
    short_name: ClassVar = "op"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Observes", json_path=".status.observes"),
        PrinterColumn(name="State", json_path=".status.state"),
        PrinterColumn(name="Brokers", json_path=".status.brokers"),
        *CONDITION_COLUMNS,
    )
    rules: ClassVar = (
        Rule(
            cel=f"has(self.spec.name) || (self.metadata.name.matches('{NAME_PATTERN}')"
            " && self.metadata.name != 'class')",
            message=f"spec.name is not set, so the name of the ObserverPlugin {_NAME_MESSAGE}",
            allows=lambda model: model.spec.name is not None or is_observer_name(model.metadata.name),
        ),
    )

    kind: Literal["ObserverPlugin"] = "ObserverPlugin"
    spec: ObserverPluginSpec
    """The observer."""
    status: ObserverPluginStatus = Field(default_factory=ObserverPluginStatus)
    """The state that the brokers report."""

    @property
    def observer_name(self) -> str:
        return self.spec.name or self.metadata.name

    @property
    def observes(self) -> str:
        return self.spec.class_name or self.spec.built_in or ""
