"""Writes charts/sluicegate/dashboards/*.json, which the chart installs."""

from tools.dashboards.rendering import FILES, FOLDER, render


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, dashboard in FILES.items():
        (FOLDER / name).write_text(render(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
