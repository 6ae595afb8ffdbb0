"""What the application is told of its partitions."""

from collections.abc import Collection

from sluicegate_consumer.record import TopicPartition


class Listener:
    """To be derived from. Each method has `Settings.callback_timeout_s`; an error that it raises ends the consumer."""

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are read from now on, and no others. Their first record comes when this has returned."""

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """No record of these comes any more. What is acknowledged until this returns is told to the coordinator."""

    async def lost(self, partitions: Collection[TopicPartition]) -> None:
        """As `revoked`, but the coordinator cannot be told any more: what was not told is read again."""
