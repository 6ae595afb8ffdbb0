"""Which result is computed from which frames: the order of the pipeline as data. It needs no session of its own."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.clean import in_hours
from audit_pipeline.results.completeness import completeness
from audit_pipeline.results.correctness import correctness
from audit_pipeline.results.cost import cost
from audit_pipeline.results.coverage import coverage
from audit_pipeline.results.error_budget import error_budget
from audit_pipeline.results.frames import EventFrames
from audit_pipeline.results.heard_windows import heard_windows, registrations
from audit_pipeline.results.inventories.idle_topics import idle_topics
from audit_pipeline.results.inventories.inventory_hours import inventory_hours
from audit_pipeline.results.inventories.replica_hours import replica_hours
from audit_pipeline.results.inventories.replicas import replicas
from audit_pipeline.results.latency import latency
from audit_pipeline.results.mirror_buckets import mirror_buckets
from audit_pipeline.results.objectives import objectives
from audit_pipeline.results.outcomes.changes import changes
from audit_pipeline.results.outcomes.failures import failures
from audit_pipeline.results.requested.latency_hist import latency_hist
from audit_pipeline.results.requested.minutes import minutes
from audit_pipeline.results.requested.usage import usage
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.storms.storm_requests import storm_requests
from audit_pipeline.results.storms.storms import storm_sources, storms
from audit_pipeline.results.topic_days import topic_days
from audit_pipeline.results.traffic import traffic

Frames = Mapping[str, DataFrame]
"""Frames by the name of the table."""


def facts(events: EventFrames) -> Frames:
    """Return the facts of the events of some hours. Partitions tell their clients, see results.requested.measured."""
    return {
        "usage": usage(events),
        "latency_hist": latency_hist(events),
        "minutes": minutes(events),
        "changes": changes(events.change),
        "heard_windows": heard_windows(events),
        "registrations": registrations(events.inventory),
        "replica_hours": replica_hours(events.inventory),
        "mirror_buckets": mirror_buckets(events.partition),
    }


def storm_facts(bins: DataFrame, request: DataFrame, hours: Collection[int]) -> Frames:
    """Return the facts of storms in these hours.

    `bins` and `request` are the storm_bins and the requests of these hours and of the time BEFORE and AFTER them. The
    caller may persist `bins`, which are used twice.
    """
    found = {"storm_bins": bins, "storm_requests": storm_requests(bins, request)}
    return {name: frame.where(in_hours(F.col("bin"), hours)) for name, frame in found.items()}


def hourly_results(stored: Frames) -> Frames:
    """Return the results that need only facts of the same hour: `stored` has the facts of some hours."""
    return {
        "traffic": traffic(stored["usage"]),
        "failures": failures(stored["usage"]),
        "latency": latency(stored["latency_hist"]),
    }


def daily_results(stored: Frames, settings: Settings) -> Frames:
    """Return the facts and results that are made from the facts of whole days."""
    used, hours = stored["usage"], inventory_hours(stored["replica_hours"])
    return {
        "topic_days": topic_days(used),
        "inventory_hours": hours,
        "replicas": replicas(stored["replica_hours"]),
        "objectives": objectives(stored["latency_hist"], settings.objectives),
        "cost": cost(used, hours, settings.prices),
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
        "idle_topics": idle_topics(stored["topic_days"], stored["replicas"], covered, complete),
        "correctness": correctness(stored["mirror_buckets"], settings.mirrors, complete),
        "error_budget": error_budget(stored["objectives"], settings.objectives),
    }
