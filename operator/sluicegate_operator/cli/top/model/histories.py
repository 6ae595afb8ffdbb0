"""The last values of figures, for sparklines. Pure; each history and their number are bounded."""

from collections import OrderedDict, deque
from collections.abc import Hashable

from sluicegate_operator.cli.top.model.lines import Trend

KEPT = 120
"""Number of values of one figure."""
FIGURES_MAX = 2_000
"""Number of figures; the one that was not updated for the longest time is removed first."""


class Histories:
    """The last values of figures, by the key of each figure."""

    def __init__(self, kept: int = KEPT, figures_max: int = FIGURES_MAX) -> None:
        self._kept = kept
        self._figures_max = figures_max
        self._values: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: Hashable, value: float) -> Trend:
        """Append a value. Return all kept values of this figure."""
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = deque(maxlen=self._kept)
            if len(self._values) > self._figures_max:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        found.append(value)
        return tuple(found)

    def forget(self, key: Hashable) -> None:
        self._values.pop(key, None)
