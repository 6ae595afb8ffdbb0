"""The listener that notifies the application of its partitions."""

from collections.abc import Collection

from sluicegate_consumer.record import TopicPartition


class Listener:
    """Base class of an application's listener for changes of the assignment.

    Each method has `Settings.callback_timeout_s`; an error that it raises ends the consumer.
    """

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Handle new partitions, which are read from now on.

        Their first record is delivered after this method returns.
        """

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Handle the loss of partitions, which deliver no more records.

        Offsets acknowledged before this method returns are sent to the coordinator.
        """

    async def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Handle the loss of partitions while the coordinator cannot be reached.

        Records whose offsets were not reported are read again.
        """
