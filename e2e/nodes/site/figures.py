"""The figures of a run: printed at its end and kept in reports/nodes.json."""

import json
from pathlib import Path

PLACE = Path(__file__).parents[3] / "reports" / "nodes.json"


class Figures:
    """Numbers by name; the name includes the unit."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    def note(self, name: str, value: float) -> None:
        self._found.setdefault(name, []).append(round(value, 3))

    def lines(self) -> list[str]:
        return [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in self._found.items()]

    def write(self) -> None:
        PLACE.parent.mkdir(exist_ok=True)
        PLACE.write_text(json.dumps(self._found, indent=1) + "\n", encoding="utf-8")
