"""Files of somebody's Go module, pinned by version and sum, downloaded by Go as any other. Nothing of it is built."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import ObtainError, show

_DOWNLOAD_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class GoModule:
    path: str
    version: str
    sum: str

    def take(self, files: Iterable[Path], place: Path) -> None:
        """These files of it, into `place`, which is made. Raises ObtainError."""
        source = self._download(place.with_name("module"))
        place.mkdir()
        for file in files:
            # The module's own files are read-only.
            (place / file.name).write_bytes((source / file).read_bytes())

    def _download(self, scratch: Path) -> Path:
        go = shutil.which("go")
        if go is None:
            raise ObtainError(f"{self.path} comes by Go's module proxy, and Go is not installed")
        show("go", f"downloading {self.path} {self.version} ...")
        scratch.mkdir()
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{self.path}@{self.version}"],
            cwd=scratch,
            # Its sum is compared below.
            env={**os.environ, "GONOSUMDB": self.path, "GOFLAGS": "-mod=mod"},
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ObtainError(
                f"Go could not download {self.path} {self.version}: {(done.stderr or done.stdout)[-800:]}"
            )
        found = json.loads(done.stdout)
        if found["Sum"] != self.sum:
            raise ObtainError(f"{self.path} {self.version} has the sum {found['Sum']}, and {self.sum} was expected")
        return Path(found["Dir"])
