"""What clients have changed: topics, configurations, quotas, groups, ACLs and users, with the outcome."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.results.tables import is_own_client

CHANGES_MAX = 100
_CHARS_MAX = 90
"""Longer names and values are cut, so that the page stays small."""

_OWN = is_own_client("client_id")
_SHOWN = f"FROM changes WHERE {within('ts')}"

_CUT = f"if(length({{0}}) > {_CHARS_MAX}, left({{0}}, {_CHARS_MAX - 1}) || '…', {{0}}) AS {{0}}"

_CHANGES = f"""
SELECT epoch_us(ts) AS at_us, cluster_id, {_CUT.format("principal")}, {_CUT.format("client_id")}, client_ip, api,
  resource_type, {_CUT.format("resource_name")}, {_CUT.format("key")}, operation, {_CUT.format("old_value")},
  {_CUT.format("new_value")}, coalesce(validate_only, false) AS is_dry_run, outcome, further
{_SHOWN} AND NOT {_OWN}
ORDER BY ts DESC, cluster_id, broker_id, boot_id, seq DESC LIMIT {CHANGES_MAX}
"""

_NUMBERS = f"""
SELECT coalesce(sum(number) FILTER (NOT is_own), 0)::BIGINT AS changes,
  coalesce(sum(number) FILTER (NOT is_own AND outcome = 'succeeded' AND NOT is_dry_run), 0)::BIGINT AS succeeded,
  coalesce(sum(number) FILTER (NOT is_own AND outcome = 'succeeded' AND is_dry_run), 0)::BIGINT AS dry_runs,
  coalesce(sum(number) FILTER (NOT is_own AND error_code IS NULL), 0)::BIGINT AS unknown,
  coalesce(sum(number) FILTER (is_own), 0)::BIGINT AS own, count(*) FILTER (NOT is_own) AS told_rows
FROM (
  SELECT coalesce(further, 1) AS number, outcome, error_code, coalesce(validate_only, false) AS is_dry_run,
    {_OWN} AS is_own
  {_SHOWN}
)
"""


@dataclass(frozen=True, slots=True)
class MadeChange:
    """A change that a client made: a row of the table changes.

    A dry run asked only whether the change is valid.
    """

    at_us: int
    cluster_id: str
    principal: str
    client_id: str | None
    client_ip: str
    api: str
    resource_type: str
    resource_name: str | None
    key: str | None
    operation: str
    old_value: str | None
    new_value: str | None
    is_dry_run: bool
    outcome: str
    further: int | None


@dataclass(frozen=True, slots=True)
class MadeChanges:
    """The changes that clients made, the newest first; the numbers count all of the shown time.

    `own` are those of Sluicegate's own clients, which no other number counts. `told_rows` is the number of rows of
    which `rows` has the first.
    """

    rows: tuple[MadeChange, ...]
    changes: int
    succeeded: int
    dry_runs: int
    unknown: int
    own: int
    told_rows: int

    @property
    def failed(self) -> int:
        return self.changes - self.succeeded - self.dry_runs - self.unknown


def made_changes(scope: Scope) -> MadeChanges:
    (numbers,) = scope.ask(_NUMBERS)
    return MadeChanges(tuple(MadeChange(**row) for row in scope.ask(_CHANGES)), **numbers)
