from pathlib import Path

from tests.support.oracles.by_file import SPARK, group_of


def test_a_file_is_a_group(tmp_path: Path) -> None:
    one, other = tmp_path / "test_one.py", tmp_path / "test_other.py"
    one.write_text("def test_it() -> None: ...\n")
    other.write_text("def test_it() -> None: ...\n")
    assert group_of(one) != group_of(other)


def test_files_that_share_the_spark_session_are_one_group(tmp_path: Path) -> None:
    one, other = tmp_path / "test_one.py", tmp_path / "test_other.py"
    one.write_text("def test_it(spark: SparkSession) -> None: ...\n")
    other.write_text("@pytest.fixture\ndef built(spark: SparkSession) -> int: ...\n")
    assert group_of(one) == group_of(other) == SPARK
