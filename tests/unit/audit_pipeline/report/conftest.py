"""Published results that several tests read."""

from pathlib import Path

import pytest

from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.report import Report, report_of
from audit_pipeline.report.window import Wanted
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import publish_rows, story


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the story's results."""
    root = tmp_path_factory.mktemp("story")
    publish_rows(root, story())
    return root


@pytest.fixture(scope="session")
def report(told: Path) -> Report:
    return report_of(PublishedTables(FolderTarget(told)), Wanted())
