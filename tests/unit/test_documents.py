"""What is written down is complete: settings, generated pages, links."""

import ast
import re
from pathlib import Path

from pylota.embedded import binaries
from pylota.states_page import states_document

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(r"(PM_[A-Z0-9_]+|DATABASE_URL|CELERY_BROKER_URL)")


def variables_read() -> set[str]:
    """Return the names that settings.py reads, from its calls of the readers."""
    tree = ast.parse((ROOT / "pylota" / "settings.py").read_text())
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and VARIABLE.fullmatch(node.args[0].value)
    }


def documented() -> dict[str, list[str]]:
    """Return each variable of .env.example with the comment lines above it."""
    found: dict[str, list[str]] = {}
    comment: list[str] = []
    for line in (ROOT / ".env.example").read_text().splitlines():
        if (match := re.match(r"#?([A-Z_0-9]+)=", line)) is not None:
            assert match[1] not in found, f"{match[1]} stands there twice"
            found[match[1]] = list(comment)
        elif line.startswith("# "):
            comment.append(line)
        else:
            comment = []
    return found


def test_the_reader_of_settings_finds_them() -> None:
    assert {"PM_ENV", "PM_KEY_PEPPER", "DATABASE_URL"} <= variables_read()


def test_every_variable_is_in_env_example_and_no_other() -> None:
    assert set(documented()) == variables_read() | {binaries.SETTING}


def test_every_variable_is_explained() -> None:
    bare = [name for name, lines in documented().items() if not lines]

    assert bare == []


def test_the_page_of_states_is_what_the_tables_say() -> None:
    assert (ROOT / "docs" / "states.md").read_text() == states_document()


def test_every_link_between_pages_leads_somewhere() -> None:
    folders = (ROOT / "docs", ROOT / "clients")
    pages = [*ROOT.glob("*.md"), *(page for f in folders for page in f.rglob("*.md"))]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target
    ]

    broken = [f"{p.name}: {t}" for p, t in links if not (p.parent / t).exists()]

    assert pages
    assert broken == []


def test_the_guarantees_name_tests_that_exist() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    named = re.findall(r"`(tests/[a-z0-9_/]+\.py)`:((?:\s+`test_\w+`,?)+)", page)

    missing = [
        f"{file}: {test}"
        for file, tests in named
        for test in re.findall(r"test_\w+", tests)
        if f"def {test}(" not in (ROOT / file).read_text()
    ]

    assert len(named) >= 7
    assert missing == []


def test_the_faults_are_all_there_each_with_a_test_or_as_not_built() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)

    untried = [
        number
        for number, row in rows
        if not re.search(r"`tests/[a-z0-9_/]+\.py`: `test_\w+`", row)
        and "not built" not in row
    ]

    assert [int(number) for number, _ in rows] == list(range(1, 49))
    assert untried == []
