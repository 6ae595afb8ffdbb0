"""Rows of the table change: one for each request that creates a topic."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tests.support.audit.audit_weeks.cast import APIS, CREATE_TOPICS, ENDINGS, Cast, Rows

Numbers = np.ndarray[Any, Any]

_CODES: Final = (0, 36, 0, 9_999, -1)
"""Error codes of changes: one of them has no name."""
_UNKNOWN_EVERY: Final = 6
"""So often nobody has looked for the error code."""


def changes(requests: Rows, changed: Numbers, ts: Numbers, cast: Cast, seq: Numbers) -> dict[str, pa.Array]:
    """Columns of the changes of those requests, by their index; `ts` has a time for each request."""
    rows = {name: values[changed] for name, values in requests.items()}
    count = len(changed)
    names = np.arange(count) % len(cast.topics)
    codes = np.array(_CODES, np.int16)[np.arange(count) % len(_CODES)]
    is_unknown = (rows["ending"] != ENDINGS.index("answered")) | (np.arange(count) % _UNKNOWN_EVERY == 0)
    topics = cast.topic_names(names)
    return {
        "seq": pa.array(seq),
        "ts": pa.array(ts[changed], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "connection_id": pa.array(rows["connection"], mask=rows["connection"] == -1),
        **cast.columns(rows["client"]),
        "client_port": pa.array(1_024 + rows["connection"] % 60_000, pa.int32()),
        "correlation_id": pa.array(seq % 1_000_000, pa.int32()),
        "api_key": pa.array(np.full(count, CREATE_TOPICS), pa.int16()),
        "api": pa.repeat(APIS[CREATE_TOPICS], count),
        "resource_type": pa.repeat("topic", count),
        "resource_name": topics,
        "key": pa.nulls(count, pa.string()),
        "operation": pa.repeat("create", count),
        "old_value": pa.nulls(count, pa.string()),
        "new_value": pa.repeat("partitions=3, replicas=2", count),
        "topic": topics,
        "validate_only": pa.array(names % 2 == 0),
        "error_code": pa.array(codes, mask=is_unknown),
        "ending": pa.array(ENDINGS).take(pa.array(rows["ending"])),
        "further": pa.nulls(count, pa.int32()),
    }
