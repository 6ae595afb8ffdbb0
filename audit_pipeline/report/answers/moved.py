"""Which application moved how much on which topic? Pure."""

from audit_pipeline.report.answers.answer import Answer, Name, Sentence, Tone, of_cluster
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.usage import Pair
from audit_pipeline.report.words import moment, number_of, percent, size

TOLD_MAX = 3


def who_moved(found: Subjects) -> Answer:
    question = "Who moved how much on which topic?"
    usage = found.usage
    if not usage.pairs or not usage.moved_bytes:
        return Answer(question, ("Nobody moved a record",), Tone.PLAIN, (("No client produced or fetched records.",),))
    first = usage.pairs[0]
    verdict = (Name(first.client_id), f": {size(first.moved_bytes)} on ", Name(first.topic))
    told = tuple(_sentence(pair, found, usage.moved_bytes) for pair in usage.pairs[:TOLD_MAX])
    more = usage.total - len(told)
    rest: tuple[Sentence, ...] = ((f"{number_of(more, 'more pair')} of client and topic moved less.",),) if more else ()
    return Answer(question, verdict, Tone.PLAIN, (*told, *rest))


def _sentence(pair: Pair, found: Subjects, whole: int) -> Sentence:
    verbs = {"produced": pair.produced_bytes, "fetched": pair.fetched_bytes}
    moved = " and ".join(f"{verb} {size(number)}" for verb, number in verbs.items() if number) or "moved nothing"
    return (
        "Client ",
        Name(pair.client_id),
        *of_cluster(pair.cluster_id, found),
        f" {moved} on topic ",
        Name(pair.topic),
        f", {percent(pair.moved_bytes / whole)} of all, most of it around {moment(pair.busiest_us)} UTC.",
    )
