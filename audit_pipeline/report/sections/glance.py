"""The answers that the page opens with. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.answers.answer import Answer, Name, Sentence
from audit_pipeline.report.markup import Child, Markup, named, tag
from audit_pipeline.report.sections.parts import Column, small_table


def glance(answers: Sequence[Answer]) -> Markup:
    return tag("section", [_answer(answer) for answer in answers], class_="answers", id="answers", aria_label="Answers")


def _answer(answer: Answer) -> Markup:
    columns = (
        Column(""),
        Column("now", is_number=True),
        Column("before", is_number=True),
        Column("change", is_number=True),
    )
    rows = [(row.what, row.now, row.before, row.change) for row in answer.compared]
    first, *rest = answer.sentences
    return tag(
        "article",
        tag("h2", answer.question),
        tag("p", in_html(answer.verdict), class_=f"verdict {answer.tone}"),
        tag("p", in_html(first)),
        small_table("Now and before", columns, rows) if rows else None,
        tag("ul", [tag("li", in_html(sentence)) for sentence in rest]) if rest else None,
    )


def in_html(sentence: Sentence) -> list[Child]:
    return [named(part) if isinstance(part, Name) else part for part in sentence]
