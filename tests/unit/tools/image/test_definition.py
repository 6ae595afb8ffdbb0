from tools.image.definition import IMAGES, USER_ID, configuration


def test_every_image_runs_as_a_user_of_its_own_under_a_name_of_its_own() -> None:
    assert {configuration(image, "1.2.3")["User"] for image in IMAGES.values()} == {f"{USER_ID}:{USER_ID}"}
    assert {image.reference("1.2.3") for image in IMAGES.values()} == {
        "sluicegate:1.2.3",
        "sluicegate:1.2.3-landing",
        "sluicegate:1.2.3-client",
        "sluicegate-audit:1.2.3",
    }


def test_java_is_found_where_spark_is() -> None:
    assert any(entry.startswith("JAVA_HOME=") for entry in configuration(IMAGES["audit"], "1.2.3")["Env"])
    assert not any(entry.startswith("JAVA_HOME=") for entry in configuration(IMAGES["slim"], "1.2.3")["Env"])
