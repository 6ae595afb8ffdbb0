"""Shifts the wall clock of a process by some seconds: replaces datetime in modules of the operator."""

import datetime
import sys

PACKAGE = "sluicegate_operator."


def shift(ahead_s: float) -> None:
    ahead = datetime.timedelta(seconds=ahead_s)

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Shifted":
            return super().now(tz) + ahead

    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGE) and getattr(module, "datetime", None) is datetime.datetime:
            setattr(module, "datetime", Shifted)  # noqa: B010 - a module has no such attribute for mypy
