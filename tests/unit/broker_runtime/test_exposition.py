"""The text of /metrics, read back by Prometheus' own parser."""

import math

from prometheus_client.parser import text_string_to_metric_families

from broker_runtime.exposition import MetricFamily, counter, gauge, render
from broker_runtime.node.process.process_metrics import process_families


def read_back(*families: MetricFamily) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = text_string_to_metric_families(render(families).decode())
    return {(s.name, tuple(s.labels.items())): s.value for family in found for s in family.samples}


def test_names_types_and_help_are_what_prometheus_reads() -> None:
    text = render([gauge("lag", "How far\nback \\ behind", 3), counter("seen_total", "Seen", 7)]).decode()
    lag, seen = text_string_to_metric_families(text)
    assert (lag.name, lag.type, lag.documentation) == ("lag", "gauge", "How far\nback \\ behind")
    assert (seen.name, seen.type, seen.samples[0].name, seen.samples[0].value) == ("seen", "counter", "seen_total", 7)


def test_labels_may_hold_anything() -> None:
    family = MetricFamily("open", "gauge", "Open connections")
    for odd in ('a"b', "a\\b", "a\nb", "ü", ""):
        family.add(1, listener=odd, ip="::1")
    assert {dict(labels)["listener"] for _, labels in read_back(family)} == {'a"b', "a\\b", "a\nb", "ü", ""}


def test_numbers_keep_their_value() -> None:
    for value in (0, 1, -1, 2**53, 1e300, 1.5e-9, math.inf, -math.inf):
        assert read_back(gauge("one", "", value)) == {("one", ()): value}
    assert math.isnan(read_back(gauge("one", "", math.nan))[("one", ())])


def test_a_histogram_has_buckets_a_count_and_a_sum() -> None:
    family = MetricFamily("turn_seconds", "histogram", "Time slices")
    family.add_histogram([("0.001", 2), ("+Inf", 5)], 0.25, work="io")
    work = ("work", "io")
    assert read_back(family) == {
        ("turn_seconds_bucket", (work, ("le", "0.001"))): 2,
        ("turn_seconds_bucket", (work, ("le", "+Inf"))): 5,
        ("turn_seconds_count", (work,)): 5,
        ("turn_seconds_sum", (work,)): 0.25,
    }


def test_a_metric_without_series_is_still_told_of() -> None:
    assert render([MetricFamily("none_total", "counter", "None yet")]) == (
        b"# HELP none_total None yet\n# TYPE none_total counter\n"
    )


def test_the_process_tells_its_memory_files_and_time() -> None:
    found = {name: value for (name, _), value in read_back(*process_families()).items()}
    assert found["process_virtual_memory_bytes"] > found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_max_fds"] >= found["process_open_fds"] > 2
    assert found["process_start_time_seconds"] > 1.5e9
    assert found["process_cpu_seconds_total"] > 0
