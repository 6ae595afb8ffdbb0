"""`sluicegate crds`: the CustomResourceDefinitions, generated from the models."""

from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.api.crd import render_crds


def crds(
    out: Annotated[Path | None, typer.Option(help="Write one file for each kind into this folder.")] = None,
) -> None:
    """Print the CRDs, or write them to the folder of --out. The output is ready for `kubectl apply -f -`."""
    rendered = render_crds()
    if out is None:
        print("---\n".join(rendered.values()), end="")
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, text in rendered.items():
        (out / name).write_text(text, encoding="utf-8")
        print(out / name)
