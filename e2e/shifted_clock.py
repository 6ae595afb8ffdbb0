"""The clock on the wall of a process that is some seconds ahead: what modules of the operator call datetime."""

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
