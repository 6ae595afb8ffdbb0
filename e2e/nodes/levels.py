"""Which scenarios a level has, and in which order. Nothing is run here."""

LEVEL_VARIABLE = "SLUICEGATE_NODES"
"""Names the level; without it none of the scenarios is collected, for `pytest e2e` has no nodes."""

NODES = {"short": 1, "full": 3}
IMAGES = {"short": ("slim",), "full": ("slim", "landing", "audit")}
"""Of tools.image, on every node."""

FULL_ONLY = (
    "test_admission.py",
    "test_audit.py",
    "test_examples_of_nodes.py",
    "test_namespaces.py",
    "test_nodes.py",
    "test_storm_page.py",
    "test_uninstall.py",
    "test_upgrade.py",
)
"""They take several nodes, or minutes, or the history of the project, which a clone for CI may not have."""

_FIRST = ("test_install", "test_storms", "test_pods", "test_rolls")
"""A fresh installation first."""
_LAST = ("test_nodes", "test_upgrade", "test_uninstall")
"""What may leave a cluster worse than it was, and what ends with no cluster at all."""


def ignored(level: str) -> list[str]:
    """Patterns of files that the level does not have."""
    return {"full": [], "short": list(FULL_ONLY)}.get(level, ["test_*.py"])


def place(module: str) -> int:
    """Scenarios of a module with a lower place come before; those of one place stay in the order of their names."""
    if module in _FIRST:
        return _FIRST.index(module)
    return len(_FIRST) + (1 + _LAST.index(module) if module in _LAST else 0)
