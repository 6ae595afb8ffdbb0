"""The output of `follow`: the usage of the latest events, batch by batch, named by a manifest of their own.

    RESULTS/live/_manifest.json
    RESULTS/live/usage/event_date=<date>/<query>-<batch>-<part>.parquet

A batch counts once the manifest names it, and only once even if it is repeated. Rows with the same key in several
batches have to be added. Each kind of events has a query of its own, with batches of its own.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from audit_pipeline.hours import HOUR_US
from audit_pipeline.spool.manifest_file import read_manifest_file
from audit_pipeline.spool.targets import Target

LIVE: Final = "live"
LIVE_MANIFEST: Final = "_manifest.json"
FORMAT: Final = 2
_ANEW: Final = (
    f"restore it from a copy, or delete the folder {LIVE} of the results; then the events that are still in the "
    "source are added up again"
)
KEPT_US: Final = 2 * 24 * HOUR_US
"""Age in microseconds after which batches are removed: the results of `build` have their rows."""


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """A published micro-batch: its files and numbers of rows.

    - `late`: number of rows that Spark dropped as later than the watermark. None until Spark reports the number, or if
      it was killed before.
    - `skewed`: number of rows that were left out because their time is in the future.

    The next build reads all these rows.
    """

    files: tuple[str, ...]
    rows: int
    published_us: int
    late: int | None = None
    skewed: int | None = None


Batches = Mapping[str, Mapping[str, LiveBatch]]
"""Batches by query and by number of the batch, as text."""


@dataclass(frozen=True, slots=True)
class LiveManifest:
    """One version of published usage.

    `late` and `skewed` have the numbers of such rows of all batches, by query. Batches that are not kept any more
    count.
    """

    source: str
    batches: Batches = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    skewed: Mapping[str, int] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        return sorted(path for batches in self.batches.values() for batch in batches.values() for path in batch.files)

    @property
    def rows(self) -> int:
        return sum(batch.rows for batches in self.batches.values() for batch in batches.values())

    def has(self, query: str, number: int) -> bool:
        return str(number) in self.batches.get(query, {})

    def with_batch(self, query: str, number: int, batch: LiveBatch) -> "LiveManifest":
        return replace(self, batches=_changed(self.batches, query, {str(number): batch}))

    def with_told(self, query: str, number: int, late: int, skewed: int) -> "LiveManifest":
        """Return a manifest with Spark's counts of a finished batch. A repeated report changes nothing."""
        batch = self.batches.get(query, {}).get(str(number))
        if batch is None or batch.late is not None:
            return self
        changed = _changed(self.batches, query, {str(number): replace(batch, late=late, skewed=skewed)})
        return replace(
            self,
            batches=changed,
            late={**self.late, query: self.late.get(query, 0) + late},
            skewed={**self.skewed, query: self.skewed.get(query, 0) + skewed},
        )

    def without_old(self, now_us: int) -> "LiveManifest":
        kept = {
            query: {number: batch for number, batch in batches.items() if batch.published_us >= now_us - KEPT_US}
            for query, batches in self.batches.items()
        }
        return replace(self, batches=kept)

    def packed(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode()


def _changed(batches: Batches, query: str, more: Mapping[str, LiveBatch]) -> Batches:
    return {**batches, query: {**batches.get(query, {}), **more}}


def read_live(target: Target) -> LiveManifest | None:
    """Read the manifest in the folder `live` of results; None before the first manifest.

    Raises OSError, BadUseError.
    """
    return read_manifest_file(target, LIVE_MANIFEST, LiveManifest, FORMAT, "the live results", _ANEW)


def publish_live(target: Target, manifest: LiveManifest, gone: Iterable[str] = ()) -> None:
    """Make this version visible to readers, then delete `gone`, the files that the version no longer names."""
    target.put(LIVE_MANIFEST, manifest.packed())
    for path in gone:
        target.delete(path)
