"""A sparkline: a line without axes, beside a number that says how much. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.markup import Markup, tag

WIDTH, HEIGHT = 100, 24


def sparkline(values: Sequence[float]) -> Markup | None:
    """Return the sparkline from 0 to the largest value.

    None for fewer than two values, and if all are 0.
    """
    most = max(values, default=0.0)
    if len(values) < 2 or most <= 0:
        return None
    last = len(values) - 1
    places = [f"{WIDTH * number / last:.4g} {HEIGHT * (1 - value / most):.4g}" for number, value in enumerate(values)]
    line = tag("path", d=f"M{'L'.join(places)}", class_="line line-0", vector_effect="non-scaling-stroke")
    return tag(
        "svg",
        line,
        class_="spark",
        width="100%",
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        overflow="visible",
        aria_hidden="true",
    )
