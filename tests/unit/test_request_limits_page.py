"""The page of request limits has a figure for every array of every API, and no slice is longer than 5 ms."""

import json

from tools.request_arrays import arrays_of, served_apis
from tools.request_limits_page import RESULTS

SLICE_MAX_MS = 5.0


def test_every_array_of_every_api_was_measured_and_leaves_the_loop_to_others() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    measured = {(row["api"], row.get("array") or row["request"]): row for row in rows}
    filled = {(row["api"], row["array"]) for row in rows if "array" in row}
    assert filled == {(api.name, ".".join(path)) for _, api in served_apis() for path in arrays_of(api)}
    assert {key: row["longest_ms"] for key, row in measured.items() if row["longest_ms"] > SLICE_MAX_MS} == {}
