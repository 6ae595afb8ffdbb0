"""Topics that no client uses, as a table to sort and filter. Pure."""

from audit_pipeline.report.figures.idle import IdleTopics, Topic
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.sections.parts import (
    Cell,
    Clusters,
    Column,
    Entry,
    Facets,
    Followed,
    left_out,
    nothing,
    paragraph,
    section,
    table,
    table_filter,
)
from audit_pipeline.report.window import HOUR_US
from audit_pipeline.report.words import count, length, moment, number_of, size

TABLE_ID = "idle-list"
_NEVER = "not seen"


def idle_section(found: Subjects) -> Markup:
    idle = found.idle
    if not idle.rows:
        quiet = nothing("The audit log has no list of topics yet: brokers write it every hour.")
        return section("idle", "Idle topics", quiet)
    columns = (
        Column("topic"),
        Column("idle for", is_number=True, order="descending"),
        Column("size", is_number=True),
        Column("partitions", is_number=True),
        Column("last produced (UTC)", is_whole=True),
        Column("last fetched (UTC)", is_whole=True),
        Column("idle by design"),
    )
    clusters = Clusters.of((topic.cluster_id for topic in idle.rows), len(found.clusters))
    listing = table(
        ["Topics, idle longest first", clusters.caption],
        columns,
        [_row(topic, clusters) for topic in idle.rows],
        table_id=TABLE_ID,
        followed=Followed(("cluster", "topic"), [Facets(topic.cluster_id, topic=topic.topic) for topic in idle.rows]),
    )
    more = left_out(idle.topics - len(idle.rows), "topics, which were used later,")
    by_design = tag(
        "label",
        tag("input", type="checkbox", data_spare=TABLE_ID),
        " hide topics that are idle by design (dlq, retry, error)",
    )
    chosen = table_filter("Name has ", TABLE_ID, len(idle.rows), by_design)
    return section("idle", "Idle topics", paragraph(_summary(idle)), chosen, listing, more)


def _summary(idle: IdleTopics) -> str:
    evidence = f"The audit log covers {number_of(idle.covered_days, 'day')}"
    if idle.incomplete_days:
        evidence += f", {idle.incomplete_days} of them incompletely: on these days a use may be missing"
    return (
        f"{count(idle.idle_for_a_day)} of {number_of(idle.topics, 'topic')} had no client for a day or longer, "
        f"{count(idle.idle_for_a_week)} for a week or longer. The topics that were idle for a day have "
        f"{size(idle.idle_for_a_day_bytes)} with all replicas. {evidence}. Not seen means that no use was recorded "
        "in these days."
    )


def _row(topic: Topic, clusters: Clusters) -> tuple[Entry, ...]:
    name = clusters.name(topic.topic, topic.cluster_id)
    return (
        Cell(name, topic.topic) if clusters.in_rows else name,
        Cell(length(topic.idle_hours * HOUR_US) if topic.idle_hours else "less than 1 h", topic.idle_hours),
        Cell(size(topic.replica_bytes), topic.replica_bytes),
        Cell(count(topic.partitions), topic.partitions),
        _used(topic.last_produced_us),
        _used(topic.last_fetched_us),
        "yes" if topic.is_spare else "no",
    )


def _used(at_us: int | None) -> Entry:
    return Cell(_NEVER, "") if at_us is None else moment(at_us)
