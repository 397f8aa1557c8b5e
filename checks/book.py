"""The book builds without a warning: no broken link, no forgotten page, and no file from another host."""

import html.parser
import os
import re

import repository

BUILD = "packaging/book/build"
BOOK = repository.TARGET / "book"
# Elements that load a file when the page is displayed.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
# Values of `rel` for which a browser loads no file.
UNLOADED = {"canonical", "prev", "next"}
STYLE = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


def check():
    if not (repository.TARGET / "mkdocs/installed").exists():
        skipped = "the book is not built: MkDocs is not installed; run ./dev book"
        if os.environ.get("CI") == "true":
            yield skipped
        else:
            print(f"  {skipped}")
        return
    failures = list(repository.passes(BUILD, str(repository.TARGET)))
    yield from failures
    if not failures:
        yield from foreign()


def foreign():
    """Files of other hosts that a page or a style loads."""
    pages = sorted(BOOK.rglob("*.html"))
    if not pages:
        yield f"{BOOK} contains no page"
    for file in pages:
        page = Page()
        page.feed(file.read_text())
        for address in page.loaded:
            yield f"{file.relative_to(BOOK)} loads {address}"
    for file in sorted(BOOK.rglob("*.css")):
        for address in STYLE.findall(file.read_text()):
            yield f"{file.relative_to(BOOK)} loads {address}"


class Page(html.parser.HTMLParser):
    """Collects the addresses of other hosts from which a page loads files."""

    def __init__(self):
        super().__init__()
        self.loaded = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        address = values.get(LOADED.get(tag)) or ""
        if re.match(r"(https?:)?//", address) and values.get("rel") not in UNLOADED:
            self.loaded.append(address)
