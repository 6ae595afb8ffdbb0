"""Reports kinds that cannot be watched: in the log when they change, and in the operator's readiness."""

import logging

from sluicegate_operator.handlers.process.health import Readiness
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.http.errors import NOT_SERVED
from sluicegate_operator.kube.http.kinds import BROKER_REGISTRATION, USER_KINDS

log = logging.getLogger(__name__)

_OURS = (*USER_KINDS, BROKER_REGISTRATION)


def report_troubles(cache: Cache, readiness: Readiness) -> None:
    """Log and report kinds that cannot be watched, from now on."""

    def report() -> None:
        sentence = _sentence(cache)
        if sentence and sentence not in readiness.reasons:
            log.warning("%s", sentence)
        readiness.note("watch", sentence)

    cache.on_error = report


def _sentence(cache: Cache) -> str:
    errors = cache.errors()
    missing = [kind.crd for kind in _OURS if kind in errors and errors[kind].status == NOT_SERVED]
    others = {kind: error for kind, error in errors.items() if error.status != NOT_SERVED or kind not in _OURS}
    parts = [f"these CRDs are missing, apply crds/: {', '.join(missing)}"] if missing else []
    if others:
        plurals = ", ".join(sorted(kind.plural for kind in others))
        parts.append(f"cannot watch {plurals}: {next(iter(others.values()))}")
    return "; ".join(parts)
