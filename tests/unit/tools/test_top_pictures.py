"""The pictures of `sluicegate top` in docs/images are those that the console draws."""

import asyncio

import pytest

from tools.top_pictures import IMAGES, PICTURES, picture


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_not_drifted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = asyncio.run(picture(*PICTURES[name]))
    assert drawn == (IMAGES / name).read_text(encoding="utf-8"), "run `python -m tools.top_pictures`"
