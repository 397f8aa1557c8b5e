"""Extends MkDocs: lists the decisions in the navigation, and compares each page with its document.

The documents are also displayed with the repository, as CommonMark. MkDocs uses another dialect of Markdown: for
example, it joins a list to the preceding paragraph if no empty line separates the two. Each difference causes a
warning, which is an error in the strict build.
"""

import collections
import html.parser
import logging
import pathlib

import markdown_it

LOG = logging.getLogger("mkdocs.book")
COMMONMARK = markdown_it.MarkdownIt("commonmark").enable("table")
COMPARED = {"h1", "h2", "h3", "h4", "ul", "ol", "li", "pre", "table", "tr", "blockquote", "img", "strong", "em"}


def on_config(config):
    """Replaces each folder in the navigation by its documents, ordered by name, with README.md first."""
    sources = pathlib.Path(config.docs_dir)
    entries = [entry for part in config.nav for pages in part.values() for entry in pages if isinstance(entry, dict)]
    for entry in entries:
        for title, path in entry.items():
            if path.endswith("/"):
                documents = sorted((sources / path).glob("*.md"), key=lambda file: (file.name != "README.md", file))
                entry[title] = [numbered(document, sources) for document in documents]
    return config


def numbered(document, sources):
    """An entry of the navigation. A document of the form NNNN-name.md is listed with its number."""
    path, number = str(document.relative_to(sources)), document.name.split("-")[0]
    if not number.isdigit():
        return path
    title = document.read_text().splitlines()[0].removeprefix("# ")
    return {f"{int(number)}. {title.removeprefix(f'{int(number)}. ')}": path}


def on_page_content(content, page, config, files):
    """Compares the page with a rendering as CommonMark."""
    expected, found = elements(COMMONMARK.render(page.markdown)), elements(content)
    for name in sorted(COMPARED):
        if expected[name] != found[name]:
            LOG.warning(
                "%s: the book has %d elements <%s>, a viewer of CommonMark has %d: separate lists, tables and code "
                "from paragraphs with an empty line, and indent nested blocks by four spaces",
                page.file.src_uri,
                found[name],
                name,
                expected[name],
            )
    return content


def elements(content):
    counter = Counter()
    counter.feed(content)
    return counter.counts


class Counter(html.parser.HTMLParser):
    """Counts the elements of a page. Highlighted code is one element."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def handle_starttag(self, tag, attrs):
        self.counts[tag] += 1
