"""How a session comes to Spark's connector for Kafka."""

from pathlib import Path

from audit_pipeline.sources.connector import COORDINATES, LIBS_VARIABLE, connector_config


def test_spark_fetches_the_connector_by_its_pinned_coordinates() -> None:
    assert connector_config({}) == {"spark.jars.packages": COORDINATES}


def test_jars_that_are_there_are_taken(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "pom.xml"):
        (tmp_path / name).touch()
    found = connector_config({LIBS_VARIABLE: str(tmp_path)})
    assert found == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}


def test_the_reference_gives_spark_submit_the_same_coordinates() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "audit-pipeline.md").read_text()
    assert f"`--packages {COORDINATES}`" in page
