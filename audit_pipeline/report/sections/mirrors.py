"""Whether mirrors have what was produced. Pure."""

from audit_pipeline.report.figures.mirrors import Loss, MirroredTopic
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, named
from audit_pipeline.report.sections.parts import (
    Column,
    Facets,
    Followed,
    left_out,
    mark,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.window import WINDOW_US
from audit_pipeline.report.words import count, moment, number_of


def mirrors_section(found: Subjects) -> Markup:
    mirrors = found.mirrors
    if not mirrors.topics:
        quiet = nothing(
            "No mirrors were configured, or nothing was produced to their topics: `build --mirrors FILE` "
            "configures them."
        )
        return section("mirrors", "Correctness of mirrors", quiet)
    verdict = f"At least {number_of(mirrors.lost, 'record')} are lost. " if mirrors.lost else "No record is lost. "
    behind = f"{number_of(mirrors.behind, 'more record')} have not arrived yet. " if mirrors.behind else ""
    text = paragraph(
        verdict,
        behind,
        "The comparison is by buckets of ten minutes of the records' timestamps. A bucket is uncertain if "
        "events of its day are missing.",
    )
    names = ("produced", "mirrored", "lost", "buckets", "complete", "lagging", "loss", "surplus", "uncertain")
    columns = (Column("topic"), Column("verdict"), *(Column(name, is_number=True) for name in names))
    listing = table(
        "Mirrored topics, the worst first",
        columns,
        [_topic(topic) for topic in mirrors.topics],
        followed=Followed(("topic",), [Facets(topic=topic.topic) for topic in mirrors.topics]),
    )
    more = left_out(mirrors.topics_total - len(mirrors.topics), "topics")
    columns = (
        Column("ten minutes from (UTC)"),
        Column("topic"),
        *(Column(name, is_number=True) for name in ("produced at least", "mirrored at most", "missing")),
        Column("certain"),
    )
    losses = table(
        "Buckets with lost records, the most first",
        columns,
        [_loss(loss) for loss in mirrors.losses],
        followed=Followed(("topic", "time"), [_facets(loss) for loss in mirrors.losses]),
    )
    others = left_out(mirrors.losses_total - len(mirrors.losses), "buckets with a loss")
    return section("mirrors", "Correctness of mirrors", text, listing, more, losses if mirrors.losses else None, others)


def _topic(topic: MirroredTopic) -> tuple[Child, ...]:
    verdict = (
        mark("loss", "bad")
        if topic.loss
        else "surplus"
        if topic.surplus
        else "lagging"
        if topic.lagging
        else mark("complete", "good")
    )
    numbers = (
        topic.produced,
        topic.mirrored,
        topic.lost,
        topic.buckets,
        topic.complete,
        topic.lagging,
        topic.loss,
        topic.surplus,
        topic.uncertain,
    )
    return ([named(topic.topic), " by ", named(topic.mirror)], verdict, *map(count, numbers))


def _facets(loss: Loss) -> Facets:
    return Facets(topic=loss.topic, from_us=loss.bucket_us, to_us=loss.bucket_us + WINDOW_US)


def _loss(loss: Loss) -> tuple[Child, ...]:
    numbers = (loss.produced_min, loss.mirrored_max, loss.missing)
    where: Child = [named(loss.topic), " by ", named(loss.mirror)]
    return (moment(loss.bucket_us), where, *map(count, numbers), "yes" if loss.is_certain else "no")
