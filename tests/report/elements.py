"""A parser of pages."""

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "hr"}


class Elements(HTMLParser):
    """Collects elements and text, and fails on unbalanced tags."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.strings = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"line {self.getpos()[0]}"

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.strings.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.strings).split()).replace("\N{NO-BREAK SPACE}", " ")
