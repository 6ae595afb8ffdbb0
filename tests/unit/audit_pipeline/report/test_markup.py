"""No name is interpreted as HTML."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.report.markup import LONG, Markup, named, tag, together
from kafka_bytes.printable import printable


class Read(HTMLParser):
    """The page as a browser parses it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_any_text_stays_text(text: str) -> None:
    read = Read(tag("p", text, title=text))
    assert read.tags == [("p", {"title": printable(text)})]
    assert read.text == printable(text)


@given(st.text())
def test_what_cannot_be_seen_is_written_out(text: str) -> None:
    assert printable(text).isprintable()


def test_elements_are_put_together() -> None:
    made = tag("ul", [tag("li", "a & b"), None, ["c", tag("br")]], class_="x", hidden=True, disabled=False, data_n=0.5)
    assert made == '<ul class="x" hidden data-n="0.5"><li>a &amp; b</li>c<br></ul>'
    assert isinstance(together("<"), Markup)
    assert together("<") == "&lt;"


def test_a_long_name_is_there_whole() -> None:
    name = "x" * (LONG + 1)
    assert Read(named(name)).text == name
    assert Read(named(name)).tags == [("bdi", {"class": "name long"})]
