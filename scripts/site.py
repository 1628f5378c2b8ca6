#!/usr/bin/env python3
"""Lays out the documentation as the source of an mdBook, and checks the links of its pages.

    scripts/site.py DIRECTORY    writes book.toml and src/, for `mdbook build DIRECTORY`
    scripts/site.py --check      says what is wrong and writes nothing

The README is the first page, and the pages of docs/ stand in the order of docs/README.md. Pages of other directories
that these link to follow at the end. Exits with 1 where a page of docs/ is not in docs/README.md, or where a link
leads to a file or a heading that is not there.
"""

import functools
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(os.environ.get("WEIR_SITE_ROOT", pathlib.Path(__file__).parent.parent)).resolve()
INDEX = ROOT / "docs/README.md"
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SPECIFICATION.md", "CHANGELOG.md")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


@functools.cache
def text(page):
    """A page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.S | re.M)


@functools.cache
def prose(page):
    """The same without code in lines, where brackets are no links."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text(page), flags=re.S)


def links(page):
    """File and heading of each link that leads to a file of the repository."""
    for _, target in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", target):
            file, _, heading = target.partition("#")
            yield (page.parent / file).resolve() if file else page, heading, target


def title(page):
    heading = re.search(r"^# +(.+)$", text(page), flags=re.M)
    return heading[1].replace("`", "") if heading else page.stem


@functools.cache
def headings(page):
    """What a link to a heading of this page can have behind `#`, as GitHub and mdBook make it."""
    found = {}
    for heading in re.findall(r"^#+ +(.+?)(?: +#+)?$", text(page), flags=re.M):
        heading = LINK.sub(r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if n == 0 else f"{name}-{n}" for name, last in found.items() for n in range(last + 1)}


def reached(pages):
    """All files that pages link to, and those that these link to, in the order of the links."""
    files = dict.fromkeys(pages)
    waiting = list(pages)
    while waiting:
        page = waiting.pop(0)
        for file, _, _ in links(page):
            if file.is_file() and file.is_relative_to(ROOT) and file not in files:
                files[file] = None
                if file.suffix == ".md":
                    waiting.append(file)
    return list(files)


def summary():
    """The lines of SUMMARY.md and the pages in it."""
    lines, pages = [], []

    def add(page, words, depth=0):
        if page not in pages:
            pages.append(page)
            lines.append(f"{'  ' * depth}- [{words}]({page.relative_to(ROOT)})")

    add(ROOT / "README.md", "weir")
    add(INDEX, "All pages")
    for block in re.split(r"\n(?=\*\*|- )|\n\n", text(INDEX)):
        if part := re.match(r"\*\*(.+)\*\*$", block):
            lines.append(f"\n# {part[1]}\n")
        for n, (words, target) in enumerate(LINK.findall(block)):
            page = (INDEX.parent / target.partition("#")[0]).resolve()
            if page.suffix == ".md" and page.is_file() and page.parent != ROOT:
                item = block.startswith("- ")
                add(page, words if item and n == 0 else title(page), 1 if item and n > 0 else 0)
    lines.append("\n# The project\n")
    for name in PROJECT:
        add(ROOT / name, title(ROOT / name))
    lines.append("\n# Measurements and sources\n")
    for page in sorted(file for file in reached(pages) if file.suffix == ".md"):
        add(page, title(page))
    return lines, pages


def wrong(lines_and_pages):
    """What a reader would miss, a line each."""
    _, pages = lines_and_pages
    listed = {file for file, _, _ in links(INDEX)}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page != INDEX and page not in listed:
            yield f"docs/README.md does not list {page.relative_to(ROOT)}"
    for page in pages:
        name = page.relative_to(ROOT)
        for file, heading, target in links(page):
            if not file.is_file():
                yield f"{name}: {target} leads to no file"
            elif heading and file.suffix == ".md" and heading not in headings(file):
                yield f"{name}: {target} leads to no heading"


def with_indices(text):
    """With the names that mdBook gives to the pages of directories."""
    return re.sub(r"(\]\([^()\s]*)README\.md", r"\1index.md", text)


def write(directory, lines, pages):
    source = directory / "src"
    shutil.rmtree(source, ignore_errors=True)
    for file in reached(pages):
        to = source / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.with_name(to.name.replace("README", "index")).write_text(with_indices(file.read_text()))
        else:
            shutil.copyfile(file, to)
    shutil.copyfile(ROOT / "scripts/book.toml", directory / "book.toml")
    (source / "SUMMARY.md").write_text(with_indices("# Summary\n\n" + "\n".join(lines) + "\n"))


def main(words):
    if len(words) != 1:
        sys.exit(__doc__)
    lines, pages = summary()
    faults = list(wrong((lines, pages)))
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(1)
    if words[0] == "--check":
        print(f"{len(pages)} pages, {sum(len(list(links(page))) for page in pages)} links to pages, pictures and files")
    else:
        write(pathlib.Path(words[0]), lines, pages)


if __name__ == "__main__":
    main(sys.argv[1:])
