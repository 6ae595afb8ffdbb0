"""The metadata that this broker has, for observers that record changes: the values before a change. Pure."""

from collections.abc import Mapping
from uuid import UUID

from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.metadata.areas.quotas import QuotaEntity
from broker_runtime.metadata.image import MetadataImage

_NOTHING: Mapping[str, str] = {}


class MetadataNow:
    """The metadata of an image that follows the controller: implements `observers.surroundings.MetadataBefore`."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._image.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the dynamic configuration of a resource; empty for a resource without one."""
        configs = self._image.configs
        if resource_type == ResourceType.TOPIC:
            return configs.of_topic(name)
        if resource_type == ResourceType.BROKER:
            if name and not name.isdecimal():
                return _NOTHING
            return configs.of_broker(int(name) if name else None)
        return configs.of(resource_type, name)

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None for an unknown topic."""
        known = self._image.topics.get(topic)
        return None if known is None else len(known.partitions)

    def replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:
        known = self._image.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        return None if found is None else found.replicas

    def quota(self, entity: QuotaEntity, key: str) -> float | None:
        quotas = self._image.quotas.get(entity)
        return None if quotas is None else quotas.get(key)

    def feature(self, name: str) -> int | None:
        return self._image.cluster.features.get(name)
