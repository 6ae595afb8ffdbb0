"""Published results that several tests read."""

from pathlib import Path

import pytest

from tests.support.audit.published_results import publish_rows, story


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the story's results."""
    root = tmp_path_factory.mktemp("story")
    publish_rows(root, story())
    return root
