"""Creates the source of a build from its names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from pyspark.sql import SparkSession

from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace, is_topic
from audit_pipeline.ingest.client_config import PLAINTEXT, ClientProperties
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.sources.source import EventSource


def named_source(
    spark: SparkSession,
    sources: Sequence[str],
    remembered: bytes | None,
    now_us: int,
    client: ClientProperties = PLAINTEXT,
) -> EventSource:
    """Open a source: a topic, to which `client` connects, or folders and URIs. Raises BadUseError, OSError."""
    if not is_topic(sources[0]):
        return landed_source(sources, remembered, now_us)
    # Reading files needs no Kafka client.
    from audit_pipeline.sources.kafka_topic import AuditTopic, KafkaRecords  # noqa: PLC0415

    with _damage_told(sources[0]):
        records = KafkaRecords(spark, TopicPlace.of(sources[0], client))
        return AuditTopic(sources[0], records, remembered, now_us)


def landed_source(sources: Sequence[str], remembered: bytes | None, now_us: int) -> LandedSegments:
    """Open folders and URIs as a source, which needs no Spark. Raises BadUseError, OSError."""
    with _damage_told(sources[0]):
        return LandedSegments(sources, remembered, now_us)


@contextmanager
def _damage_told(place: str) -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError:
        raise BadUseError(
            f"the results were built from the other kind of source (files or a topic) than {place}: give "
            "another --results"
        ) from None
    except msgspec.DecodeError as error:
        raise BadUseError(
            f"the results' record of their source is damaged ({error}): give another --results, where all days are "
            "built again that the source still has; these results stay unchanged"
        ) from None
