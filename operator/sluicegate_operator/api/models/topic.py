"""Topic: a topic of a cluster, its partitions and its configuration."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.configs.config_keys import TOPIC_CONFIG
from sluicegate_operator.api.configs.config_orders import TOPIC_ORDERS, config_order_rule
from sluicegate_operator.api.schema.config_values import OthersKeys, config_keys_rule, config_value_rules
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    GROUP,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, Rule, TransitionRule, cluster_ref_stays, own_name_stays

FINALIZER = f"{GROUP}/topic"
"""On a Topic with deletionPolicy Delete, until Kafka's topic is deleted: see engine.leaving_topics."""
TOPIC_PATTERN = "^[a-zA-Z0-9._-]{1,249}$"
_NAME_MESSAGE = "must be 1 to 249 letters, digits, '.', '_' and '-', not '.' or '..', and not begin with '__'"


def is_topic_name(text: str) -> bool:
    return re.fullmatch(TOPIC_PATTERN, text) is not None and text not in (".", "..") and not text.startswith("__")


class TopicSpec(Model):
    """One topic of a cluster: its partitions, replicas and configuration."""

    rules: ClassVar = (
        Rule(
            cel=f"!has(self.topicName) || (self.topicName.matches('{TOPIC_PATTERN}')"
            " && !(self.topicName in ['.', '..']) && !self.topicName.startsWith('__'))",
            message=f"topicName {_NAME_MESSAGE}",
            allows=lambda spec: spec.topic_name is None or is_topic_name(spec.topic_name),
            field="topicName",
        ),
        config_keys_rule(
            tuple(TOPIC_CONFIG),
            (),
            OthersKeys("a key that is not a topic configuration", "docs/reference/broker-configuration.md lists them"),
        ),
        *config_value_rules(TOPIC_CONFIG),
        *(config_order_rule(order) for order in TOPIC_ORDERS),
    )
    transitions: ClassVar = (
        cluster_ref_stays("create a new Topic"),
        TransitionRule(
            cel="self.partitions >= oldSelf.partitions",
            message="partitions cannot be reduced: Kafka cannot remove partitions of a topic; keep or increase the"
            " number",
            allows=lambda old, new: new.partitions >= old.partitions,
            field="partitions",
        ),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster that has the topic."""
    topic_name: str | None = Field(default=None, min_length=1, max_length=249)
    """Kafka's name of the topic, if it differs from metadata.name."""
    partitions: int = Field(ge=1, le=10000)
    """Number of partitions; it can be increased, but not reduced."""
    replicas: int | None = Field(default=None, ge=1, le=100)
    """Number of replicas of each partition, on as many brokers. A change reassigns the partitions while the brokers
    run; the status shows the progress. If absent, a new topic gets the brokers' default.replication.factor, and the
    replicas of an existing topic are unchanged."""
    config: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=50)] | None = None
    """Configuration of the topic under Kafka's names, with strings as values (retention.ms: "86400000"). A key that is
    removed from it returns to the broker's default. A key that was never in it is left to other clients that set it on
    the topic."""
    deletion_policy: Literal["Delete", "Retain"] = "Retain"
    """What happens to the topic when this object is deleted. Retain keeps it and its records on the brokers, so that
    pruning by a GitOps tool or deleting the namespace loses no records. Delete deletes it with all its records. With
    Delete the operator puts the finalizer sluicegate.dev/topic on the object, so that no deletion is lost while the
    operator is down. The object then waits until the topic is deleted. A topic that this object has neither created nor
    adopted stays, and an Event reports it. If the deletion fails for 5 minutes of attempts by the
    operator, or if the BrokerCluster is gone, the object is deleted, the topic stays, and an Event reports it."""


class ReplicasChange(Model):
    """Progress of a change of the number of replicas."""

    model_config = Status.model_config

    target_replicas: int
    """Number of replicas that each partition will have."""
    partitions: str = Field(max_length=32)
    """Partitions that have that number, of all partitions: 5/12."""
    moving: int = 0
    """Partitions that are being reassigned now."""


class TopicStatus(Status):
    topic_name: str = Field(default="", max_length=249)
    """Kafka's name of the topic."""
    topic_id: str = Field(default="", max_length=64)
    """Kafka's id of the topic, after this object has created or adopted it. Only the topic with this id is deleted with
    the object."""
    partitions: int = 0
    """Number of partitions of the topic."""
    replicas: int = 0
    """Number of replicas of each partition; the smallest number if they differ."""
    replicas_change: ReplicasChange | None = None
    """Progress while the number of replicas changes; absent otherwise."""
    config_keys: tuple[Annotated[str, Field(max_length=253)], ...] = Field(default=(), max_length=100)
    """Keys of spec.config that the operator has set on the topic, and that it removes when they leave spec.config."""


class Topic(Resource):
    """A topic of a cluster."""

    plural: ClassVar = "topics"
    short_name: ClassVar = "tp"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Partitions", json_path=".status.partitions", type="integer"),
        PrinterColumn(name="Replicas", json_path=".status.replicas", type="integer"),
        PrinterColumn(name="Reassigned", json_path=".status.replicasChange.partitions", priority=1),
        *CONDITION_COLUMNS,
    )
    rules: ClassVar = (
        Rule(
            cel=f"has(self.spec.topicName) || self.metadata.name.matches('{TOPIC_PATTERN}')",
            message=f"spec.topicName is not set, so the name of the Topic {_NAME_MESSAGE}",
            allows=lambda model: model.spec.topic_name is not None or is_topic_name(model.metadata.name),
        ),
    )

    transitions: ClassVar = (
        TransitionRule(
            cel=own_name_stays("topicName"),
            message="spec.topicName cannot be changed: Kafka cannot rename a topic; create a new Topic",
            allows=lambda old, new: old.topic_name == new.topic_name,
        ),
    )

    kind: Literal["Topic"] = "Topic"
    spec: TopicSpec
    """The desired state of the topic."""
    status: TopicStatus = Field(default_factory=TopicStatus)
    """The state of the topic that the operator last observed."""

    @property
    def topic_name(self) -> str:
        return self.spec.topic_name or self.metadata.name
