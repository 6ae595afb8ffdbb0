"""Files of a published Go module, pinned by version and sum and downloaded by Go. Nothing of it is built."""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.obtain.cache import ObtainError
from tests.support.obtain.go_build import download


@dataclass(frozen=True, slots=True)
class GoModule:
    """A Go module, pinned by version and by the sum of its content."""

    path: str
    version: str
    sum: str

    def take(self, files: Iterable[Path], place: Path, *, target: str) -> None:
        """Copy these files of the module into `place`, a new folder; `target` is the `make` target that runs this.

        Raises ObtainError.
        """
        source = self._download(place.with_name("module"), target)
        place.mkdir()
        for file in files:
            # The module's own files are read-only.
            (place / file.name).write_bytes((source / file).read_bytes())

    def copy(self, place: Path, *, target: str) -> None:
        """Copy the whole module to `place`, a new folder whose files can be changed. Raises ObtainError."""
        shutil.copytree(self._download(place.with_name("module"), target), place, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(place):
            # The module's own folders are read-only.
            Path(folder).chmod(0o755)

    def _download(self, scratch: Path, target: str) -> Path:
        scratch.mkdir()
        module = f"{self.path}@{self.version}"
        # `sum` pins the content, so that Go need not ask its sum database.
        environment = {"GONOSUMDB": self.path, "GOFLAGS": "-mod=mod"}
        found = json.loads(download(target, module, scratch=scratch, env=environment))
        if found["Sum"] != self.sum:
            raise ObtainError(f"{self.path} {self.version} has the sum {found['Sum']}, and {self.sum} was expected")
        return Path(found["Dir"])
