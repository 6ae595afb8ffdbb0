from pathlib import Path

import pytest

from e2e.kind.packages import unpack
from tests.support.obtain.cache import ObtainError


def test_old_package_lists_are_updated_and_remaining_errors_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\necho "E: no such thing" >&2\nexit 100\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ObtainError, match=r"cannot fetch systemd, runc:\nE: no such thing"):
        unpack(("systemd", "runc"), tmp_path / "root", whole=True)
    deeds = [call.partition("Debug::NoLocking=1 ")[2] or call for call in (tmp_path / "calls").read_text().splitlines()]
    assert [deed.split()[-1] for deed in deeds] == ["runc", "update", "runc"]
    assert all("Dir::State::status=" in call for call in deeds if "install" in call)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apt-get", "calls", "root"], "no scratch is left"
