"""The commands of the audit topic. Shell."""

import argparse
import logging
from collections.abc import Callable
from threading import Event

from audit_pipeline.commands.commands import FOUND_SOMETHING, OK, client_of, require_source
from audit_pipeline.errors import StoppedError
from audit_pipeline.ingest.audit_topic import TopicPlace

log = logging.getLogger(__name__)


def publish(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    """Run the command `publish`, which sends audit events to a topic.

    Raises KeyboardInterrupt if it is stopped without `--follow` before everything is published.
    """
    try:
        return _publish(given, stopped, now_us)
    except StoppedError as error:
        log.info("%s", error)
        if not given.follow:
            raise KeyboardInterrupt from error
        return OK


def _publish(given: argparse.Namespace, stopped: Event, now_us: Callable[[], int]) -> int:
    # Only the commands that need the client library load it.
    from audit_pipeline.ingest.kafka_events import KafkaEvents, TopicReplacedError  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415
    from audit_pipeline.upkeep.publish import LandedFooters, published_numbers  # noqa: PLC0415
    from audit_pipeline.upkeep.publish import publish as publish_segments  # noqa: PLC0415

    place = TopicPlace.of(given.topic, client_of(given.command_config, given.topic))
    require_source(given.source)
    target = open_target(given.source)
    topic = KafkaEvents(place, stopped, timeout_s=given.timeout_s, gives_up=not given.follow)
    there = None
    footers = LandedFooters()
    told: tuple[str, ...] = ()
    while True:
        code = OK
        try:
            if there is None:
                there = published_numbers(target, topic, footers)
            done = publish_segments(target, topic, there, now_us() // 1000, footers)
        except OSError as error:
            if not given.follow:
                raise
            if isinstance(error, TopicReplacedError):
                # A new topic has different ends.
                there = None
            log.error("%s", error)
        else:
            for problem in done.problems if done.problems != told else ():
                log.error("%s", problem)
            told = done.problems
            code = FOUND_SOMETHING if told else OK
            if done.segments or not given.follow:
                log.info("published %d events of %d segments", done.events, done.segments)
        if not given.follow or stopped.wait(given.interval_s):
            return code
