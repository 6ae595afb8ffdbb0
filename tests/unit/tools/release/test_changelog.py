import pytest

from tools.release.changelog import check_version, notes_of, with_section
from tools.release.errors import ReleaseError

TEXT = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.2.0 (2026-12-01)\n\n- Second.\n\n## 0.1.0\n\n- First.\n"


def test_the_notes_of_a_release_are_the_section_of_its_version() -> None:
    assert notes_of(TEXT, "0.2.0") == "- Second.\n"
    assert notes_of(TEXT, "0.1.0") == "- First.\n"


@pytest.mark.parametrize("version", ["0.2", "0.2.00", "0.3.0"])
def test_a_version_without_a_section_is_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(ReleaseError, match=f"no section for {version}: `make release-version VERSION={version}`"):
        notes_of(TEXT, version)


def test_an_empty_section_has_no_notes() -> None:
    with pytest.raises(ReleaseError, match="no section"):
        notes_of("## 0.3.0\n\n## 0.2.0\n\n- Second.\n", "0.3.0")


def test_a_new_version_takes_what_is_unreleased() -> None:
    text = with_section(TEXT, "0.3.0", "2026-12-24")
    assert notes_of(text, "0.3.0") == "- New.\n"
    assert text.startswith("# Changelog\n\n## Unreleased\n\n## 0.3.0 (2026-12-24)\n\n- New.\n")
    with pytest.raises(ReleaseError, match="no section for Unreleased"):
        with_section(text, "0.4.0", "2026-12-25")


def test_a_version_gets_one_section() -> None:
    with pytest.raises(ReleaseError, match=r"already has a section for 0\.2\.0"):
        with_section(TEXT, "0.2.0", "2026-12-24")


@pytest.mark.parametrize("version", ["0.2.0", "10.20.30", "1.0.0-rc.1", "1.0.0-alpha-1.x"])
def test_versions_are_those_of_semver(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3+build", "1.2.3 "])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match="is not a version of SemVer"):
        check_version(version)
