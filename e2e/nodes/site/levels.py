"""The scenarios of each level, and their order. Data only."""

LEVEL_VARIABLE = "SLUICEGATE_NODES"
"""Names the level. Without it no scenario is collected, because `pytest e2e` has no nodes."""

NODES = {"short": 1, "full": 3}
IMAGES = {"short": ("slim", "client"), "full": ("slim", "client", "landing", "audit")}
"""Images of tools.image that every node gets."""

FULL_ONLY = (
    "test_admission.py",
    "test_audit.py",
    "test_examples_of_nodes.py",
    "test_namespaces.py",
    "test_nodes.py",
    "test_secure_renewals.py",
    "test_storm_page.py",
    "test_uninstall.py",
    "test_upgrade.py",
)
"""These take several nodes, or minutes, or the history of the project, which a clone for CI may not have."""

_FIRST = ("test_install", "test_storms", "test_pods", "test_rolls")
"""A new installation comes first."""
_LAST = ("test_nodes", "test_upgrade", "test_uninstall")
"""Scenarios that may damage the cluster, and the one that removes it."""


def ignored(level: str) -> list[str]:
    """Return patterns of files that the level omits."""
    return {"full": [], "short": list(FULL_ONLY)}.get(level, ["test_*.py"])


def place(module: str) -> int:
    """Return the module's rank: scenarios run in the order of ranks, and those of one rank in the order of names."""
    if module in _FIRST:
        return _FIRST.index(module)
    return len(_FIRST) + (1 + _LAST.index(module) if module in _LAST else 0)
