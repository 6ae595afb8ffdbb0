"""Brings the topics of a cluster in line with their resources, over the admin protocol; one that fails is reported."""

from collections.abc import Iterable

from sluicegate_operator.api import Topic
from sluicegate_operator.kafka_admin.api import TopicAdmin
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.views import ConfigSource, NewTopic


async def apply_topic(admin: TopicAdmin, topic: Topic) -> str | None:
    """None when the topic is as it should be, otherwise a sentence."""
    try:
        return await _apply(admin, topic)
    except KafkaAdminError as error:
        return str(error)


async def _apply(admin: TopicAdmin, topic: Topic) -> str | None:
    name, spec = topic.topic_name, topic.spec
    config = dict(spec.config or {})
    view = (await admin.describe_topics([name]))[name]
    if view.error == "UNKNOWN_TOPIC_OR_PARTITION":
        await admin.create_topic(NewTopic(name, spec.partitions, spec.replicas, config))
        return None
    if view.error is not None:
        return f"the brokers answer {view.error}"
    count = len(view.partitions)
    if count < spec.partitions:
        await admin.create_partitions(name, spec.partitions)
    elif count > spec.partitions:
        return f"has {count} partitions already, and Kafka cannot take any away; say partitions: {count}"
    entries = await admin.describe_topic_configs(name)
    own = {key: entry.value for key, entry in entries.items() if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    change = ConfigChange(
        set={key: value for key, value in config.items() if own.get(key) != value},
        delete=[key for key in own if key not in config],
    )
    if change.set or change.delete:
        await admin.alter_topic_configs(name, change)
    return None


async def delete_topics(admin: TopicAdmin, names: Iterable[str]) -> list[str]:
    """A sentence for each; a topic that is gone already is no failure."""
    sentences = []
    for name in names:
        try:
            await admin.delete_topic(name)
            sentences.append(f"topic {name} is deleted, as its deletionPolicy says")
        except KafkaAdminError as error:
            sentences.append(str(error))
    return sentences
