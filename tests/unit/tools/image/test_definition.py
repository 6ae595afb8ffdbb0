from tools.image.definition import IMAGES, USER_ID, configuration


def test_every_image_runs_as_a_user_of_its_own_under_a_name_of_its_own() -> None:
    assert {configuration(image, "1.2.3")["User"] for image in IMAGES.values()} == {f"{USER_ID}:{USER_ID}"}
    assert {image.reference("1.2.3") for image in IMAGES.values()} == {
        "sluicegate:1.2.3",
        "sluicegate:1.2.3-landing",
        "sluicegate:1.2.3-client",
        "sluicegate-audit:1.2.3",
    }


def test_archives_of_an_architecture_that_was_asked_for_name_it() -> None:
    assert IMAGES["landing"].file_name("1.2.3") == "sluicegate-1.2.3-landing.tar"
    assert IMAGES["landing"].file_name("1.2.3", "arm64") == "sluicegate-1.2.3-landing-arm64.tar"


def test_only_images_with_commands_have_the_packages_of_the_command_line() -> None:
    project = {
        "name": "sluicegate",
        "dependencies": ["typer"],
        "optional-dependencies": {name: [name] for name in ("broker", "operator", "client")},
    }
    assert IMAGES["client"].requirements(project) == ["client"]
    assert IMAGES["slim"].requirements(project) == ["broker", "operator", "typer"]


def test_java_is_found_where_spark_is() -> None:
    assert any(entry.startswith("JAVA_HOME=") for entry in configuration(IMAGES["audit"], "1.2.3")["Env"])
    assert not any(entry.startswith("JAVA_HOME=") for entry in configuration(IMAGES["slim"], "1.2.3")["Env"])
