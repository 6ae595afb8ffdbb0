"""The source of looks for any bootstrap server: only Kafka's admin protocol is asked."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sluicegate_operator.cli.asking.why_report import AddressAnswers
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.sources.fleet_source import shown_now
from sluicegate_operator.cli.top.sources.kafka_answers import KafkaPlace, KafkaWatch
from sluicegate_operator.cli.top.sources.source import SourceError

PERIOD_S = 2.0


class KafkaSource:
    """The looks at a cluster that answers Kafka's protocol. `watch` has its last answers."""

    def __init__(self, title: str, watch: KafkaWatch) -> None:
        self.title = title
        self._watch = watch

    async def look(self) -> Look:
        await self.settle()
        answers = self._watch.answers
        if answers is None:
            raise SourceError(self._watch.note)
        return Look(
            at_s=time.monotonic(),
            shown_at=shown_now(),
            clusters=[answers.cluster_seen] if answers.cluster_seen is not None else [],
            kafka=[answers],
            notes=(self._watch.note,) if self._watch.note else (),
        )

    async def settle(self) -> None:
        await self._watch.first.wait()

    async def why(self, address: str) -> Sequence[AddressAnswers]:
        raise SourceError(
            "Kafka's protocol does not report which limits delay or reject an address: use `sluicegate top` with -n"
            " NAMESPACE, or on the machine of `sluicegate up`"
        )


@asynccontextmanager
async def source_by_kafka(place: KafkaPlace) -> AsyncIterator[KafkaSource]:
    """Yield the source for a cluster with a bootstrap server."""
    async with KafkaWatch(place, time.monotonic, PERIOD_S) as watch:
        yield KafkaSource(place.cluster, watch)
