"""Which result is computed from which frames: the order of the pipeline as data. It needs no session of its own."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.arrivals.connection_seconds import connection_seconds
from audit_pipeline.results.clean import in_hours
from audit_pipeline.results.correctness import correctness
from audit_pipeline.results.cost import cost
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
"""Spark's frames by the name of the table."""
Results = Mapping[str, DataFrame | None]
"""What a build writes by the name of the table; None if it is known to have no row, which needs no query."""

MADE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("traffic", "failures", "topic_days"), ("usage",)),
    **dict.fromkeys(("latency", "objectives"), ("latency_hist",)),
    **dict.fromkeys(("inventory_hours", "replicas"), ("replica_hours",)),
    "cost": ("usage", "inventory_hours"),
    "coverage": ("heard_windows", "registrations"),
    "completeness": ("coverage",),
    "quarantine": (),
    "storms": ("storm_bins", "storm_requests"),
    "storm_sources": ("storm_bins",),
    "idle_topics": ("topic_days", "replicas", "coverage"),
    "correctness": ("mirror_buckets",),
    "error_budget": ("objectives",),
}
"""The tables that each result is made of, whose size says how much there is to compute."""


def facts(events: EventFrames) -> Frames:
    """Return the facts of the events of some hours.

    `events` must have passed `results.requested.measured.with_clients`: each row of partition has its client.
    """
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


def arrival_facts(connection: DataFrame, hours: Collection[int]) -> Frames:
    """Return the connections of these hours by second. `connection` also has the events BEFORE and AFTER the hours."""
    return {"connection_seconds": connection_seconds(connection).where(in_hours(F.col("second"), hours))}


NO_STORM_FACTS: Final[Results] = {"storm_bins": None, "storm_requests": None}


def hourly_results(stored: Frames) -> Frames:
    """Return the results that need only facts of the same hour: `stored` has the facts of some hours."""
    return {
        "traffic": traffic(stored["usage"]),
        "failures": failures(stored["usage"]),
        "latency": latency(stored["latency_hist"]),
    }


def daily_results(stored: Frames, settings: Settings) -> Results:
    """Return the facts and results that are made from the facts of whole days."""
    return {
        "topic_days": topic_days(stored["usage"]),
        "inventory_hours": inventory_hours(stored["replica_hours"]),
        "replicas": replicas(stored["replica_hours"]),
        "objectives": objectives(stored["latency_hist"], settings.objectives) if settings.objectives else None,
    }


def costs(stored: Frames, settings: Settings) -> Results:
    """Return the costs of days, from the facts of these days and from `inventory_hours`."""
    return {"cost": cost(stored["usage"], stored["inventory_hours"], settings.prices)}


def whole_results(stored: Frames, settings: Settings) -> Results:
    """Return the results over everything stored by day, over coverage and over completeness.

    `storm_rows` of `stored` are the rows of storm_bins with their episodes; missing if there is none.
    """
    mirrors, complete, storm_rows = settings.mirrors, stored["completeness"], stored.get("storm_rows")
    return {
        "storms": storms(storm_rows, stored["storm_requests"]) if storm_rows is not None else None,
        "storm_sources": storm_sources(storm_rows) if storm_rows is not None else None,
        "idle_topics": idle_topics(stored["topic_days"], stored["replicas"], stored["coverage"], complete),
        "correctness": correctness(stored["mirror_buckets"], mirrors, complete) if mirrors else None,
        "error_budget": error_budget(stored["objectives"], settings.objectives) if settings.objectives else None,
    }
