"""Which result is computed from which frames: the order of the pipeline as data. It needs no session of its own."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from audit_pipeline.results.completeness import completeness
from audit_pipeline.results.correctness import correctness
from audit_pipeline.results.cost import cost
from audit_pipeline.results.coverage import coverage
from audit_pipeline.results.error_budget import error_budget
from audit_pipeline.results.frames import EventFrames
from audit_pipeline.results.heard_windows import heard_windows, registrations
from audit_pipeline.results.idle_topics import idle_topics
from audit_pipeline.results.inventory_hours import inventory_hours
from audit_pipeline.results.latency import latency
from audit_pipeline.results.mirror_buckets import mirror_buckets
from audit_pipeline.results.objectives import objectives
from audit_pipeline.results.outcomes.changes import changes
from audit_pipeline.results.rollup import rollup
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.storms.storm_bins import storm_bins
from audit_pipeline.results.storms.storm_requests import storm_requests
from audit_pipeline.results.storms.storms import storm_sources, storms
from audit_pipeline.results.topic_days import topic_days
from audit_pipeline.results.traffic import traffic

Frames = Mapping[str, DataFrame]
"""Frames by the name of the table."""


def facts(events: EventFrames, settings: Settings) -> Frames:
    """Return the facts of the events of some days."""
    return {
        "rollup": rollup(events),
        "changes": changes(events.change),
        "heard_windows": heard_windows(events),
        "registrations": registrations(events.inventory),
        "inventory_hours": inventory_hours(events.inventory),
        "mirror_buckets": mirror_buckets(events.partition),
        "storm_bins": storm_bins(events.connection, events.request, settings.storms),
    }


def facts_of_facts(events: EventFrames, stored: Frames) -> Frames:
    """Return the facts of some days that need both their events and others of their facts."""
    return {"storm_requests": storm_requests(stored["storm_bins"], events.request)}


def daily_results(stored: Frames, settings: Settings) -> Frames:
    """Return the results of the facts of some days; `topic_days`, a fact too, is computed from another fact."""
    of_requests = stored["rollup"]
    return {
        "topic_days": topic_days(of_requests),
        "traffic": traffic(of_requests),
        "latency": latency(of_requests),
        "objectives": objectives(of_requests, settings.objectives),
        "cost": cost(of_requests, stored["inventory_hours"], settings.prices),
    }


def whole_results(
    stored: Frames, holes: DataFrame, quarantine: DataFrame, settings: Settings, settled_us: int
) -> Frames:
    """Return the results over everything stored by day, and over the faults of files.

    What brokers recorded before `settled_us` should have landed. `storm_rows` of `stored` are the rows of storm_bins
    with their episodes.
    """
    covered = coverage(stored["heard_windows"], holes, stored["registrations"], settled_us)
    complete = completeness(covered, quarantine)
    return {
        "coverage": covered,
        "completeness": complete,
        "quarantine": quarantine,
        "storms": storms(stored["storm_rows"], stored["storm_requests"]),
        "storm_sources": storm_sources(stored["storm_rows"]),
        "idle_topics": idle_topics(stored["topic_days"], stored["inventory_hours"], covered, complete),
        "correctness": correctness(stored["mirror_buckets"], settings.mirrors, complete),
        "error_budget": error_budget(stored["objectives"], settings.objectives),
    }
