"""Styles of the console, in the 16 colours of the terminal itself."""

from rich.style import Style

from sluicegate_operator.cli.top.model.columns import Mark

PLAIN = Style()
STYLES = {
    Mark.PLAIN: PLAIN,
    Mark.GOOD: Style(color="green"),
    Mark.WARN: Style(color="yellow"),
    Mark.BAD: Style(color="red", bold=True),
    Mark.DIM: Style(dim=True),
}
CURSOR = Style(reverse=True)
"""The row of the cursor has the sign `>` as well."""
HEADING = Style(bold=True, underline=True)
KEYS = Style(reverse=True)

CSS = """
Screen, TextLines, RowTable, Input { background: ansi_default; color: ansi_default; }
TextLines { height: 1; }
#notes { display: none; }
RowTable { height: 1fr; }
#filter { display: none; border: none; height: 1; padding: 0; }
DetailScreen { background: ansi_default; align: center middle; }
DetailScreen > VerticalScroll {
  width: 100%; height: 1fr; background: ansi_default; padding: 0 1; scrollbar-size: 1 1;
  scrollbar-color: ansi_white; scrollbar-background: ansi_default; scrollbar-color-active: ansi_white;
  scrollbar-color-hover: ansi_white; scrollbar-background-hover: ansi_default;
  scrollbar-background-active: ansi_default; }
DetailScreen Static { width: auto; background: ansi_default; color: ansi_default; }
"""
