"""A folder that looks like a clone of the repository, in which a page's commands may change examples."""

import shutil
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LEFT_OUT = frozenset({".git", ".sluicegate", "examples"})


def checkout(folder: Path, copied: Collection[str] = ()) -> Path:
    """Make a clone in `folder`: links to the repository's files, and copies of the examples.

    `copied`: further entries that are copied.
    """
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in LEFT_OUT and entry.name not in copied:
            (folder / entry.name).symlink_to(entry)
    for name in ("examples", *copied):
        shutil.copytree(ROOT / name, folder / name)
    return folder
