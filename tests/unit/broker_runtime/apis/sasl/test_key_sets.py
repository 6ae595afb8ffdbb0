"""Key sets: a file is read when it has changed, and URLs are checked. Endpoints are tested with a server."""

import asyncio
import os
from pathlib import Path

import pytest

from broker_runtime.apis.sasl.key_sets import KeyEndpoint, KeyFile, KeySetLimits, key_source
from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.tokens import Keys, KeySetError, read_keys
from tests.support.requests.tokens import key_set

LIMITS = KeySetLimits(3600.0, 0.1, 10.0, 10.0, 1_000_000)


def kids(file: KeyFile) -> list[str | None]:
    return [key.key_id for key in file.current()]


def changed(path: Path, content: bytes, second: int) -> None:
    path.write_bytes(content)
    os.utime(path, (second, second))


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys of%20all.json"
    changed(path, key_set(0), 1)
    file = key_source(path.as_uri(), None, None, LIMITS)
    assert isinstance(file, KeyFile)
    assert kids(file) == ["0", "ec"]
    changed(path, key_set(1), 2)
    assert kids(file) == ["1", "ec"]
    changed(path, b"nonsense", 3)
    assert kids(file) == ["1", "ec"], "the last keys stay valid"
    path.unlink()
    assert kids(file) == ["1", "ec"]
    assert "the last ones stay valid" in caplog.text


@pytest.mark.parametrize("content", [None, b"nonsense", b'{"keys": []}'])
def test_a_file_without_keys_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: .*cannot be used"):
        key_source(path.as_uri(), None, None, LIMITS)


@pytest.mark.parametrize("url", ["", "ftp://a/b", "https://", "keys.json"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="must begin with"):
        key_source(url, None, None, LIMITS)


def test_files_that_are_missing_are_named() -> None:
    with pytest.raises(ConfigError, match="/nowhere cannot be read"):
        key_source("https://here/keys", "/nowhere", None, LIMITS)


async def reads_for_unknown_keys(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> tuple[int, float | None]:
    """Return the number of reads for a hundred unknown keys in a row, and the seconds until the next one."""
    reads: list[float] = []
    loop = asyncio.get_running_loop()

    def read(_: KeyEndpoint) -> Keys:
        reads.append(loop.time())
        if fails:
            raise KeySetError("it is not there")
        return read_keys(key_set(0))

    ended = asyncio.Event()
    was_read = KeyEndpoint._was_read

    def noted(endpoint: KeyEndpoint, reading: "asyncio.Future[Keys]") -> None:
        was_read(endpoint, reading)
        ended.set()

    monkeypatch.setattr(KeyEndpoint, "_read", read)
    monkeypatch.setattr(KeyEndpoint, "_was_read", noted)
    endpoint = KeyEndpoint("https://here/keys", None, None, KeySetLimits(3600.0, 60.0, 60.0, 10.0, 1_000_000))
    try:
        for number in range(100):
            if endpoint._reading:
                await ended.wait()
            ended.clear()
            endpoint._seek(f"unknown-{number}")
        return len(reads), None if endpoint._timer is None else endpoint._timer.when() - reads[-1]
    finally:
        endpoint.close()


async def test_unknown_keys_are_sought_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can name unknown keys, and each read is a request to the issuer."""
    reads, next_s = await reads_for_unknown_keys(monkeypatch, fails=False)
    assert reads <= 2
    assert next_s is not None
    assert next_s < 2


async def test_unknown_keys_do_not_shorten_the_wait_for_an_issuer_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, next_s = await reads_for_unknown_keys(monkeypatch, fails=True)
    assert reads == 1
    assert next_s is not None
    assert next_s >= 60
