"""The page in a real Chromium: narrow and wide, light and dark, with nothing, one task and five thousand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.cli.entry import main
from tests.benchmarks import make_log
from tests.report.browser import Page, chromium

pytestmark = pytest.mark.chromium

SIZES = (0, 1, 5000)
LONG = "An_unbreakable_title_" + "x" * 400 + " <b>bold</b> \u202e" + "\x1b[31m"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """`report --html` of homes of three sizes; titles and names are made as awkward as they can be."""
    found = {}
    for size in SIZES:
        folder = tmp_path_factory.mktemp(f"home{size}")
        with store.open(folder / "logs" / "dispatcher.db") as db:
            if size:
                make_log.fill(db, size * 2)
                db.connection.execute("UPDATE task SET title = ? WHERE id % 50 = 1", (LONG,))
                db.connection.execute("UPDATE attempt SET model = ? WHERE candidate = 'opus'", (LONG[:120],))
        found[size] = folder / "report.html"
        assert main(["report", "--home", str(folder), "--html", str(found[size])]) == 0
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_and_is_silent(browser: Page, pages: dict[int, Path], size: int, width: int, dark: bool) -> None:
    browser.problems.clear()
    browser.requests.clear()
    browser.open(pages[size], width=width, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= width, "the page itself never scrolls sideways"
    outside = "Array.from(document.querySelectorAll('body *')).filter(e => !e.closest('.wide') && !e.closest('svg')"
    assert browser.js(f"{outside} && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)") == []
    assert browser.problems == []
    assert browser.requests == [pages[size].as_uri()], "it asks for nothing but itself"
    assert browser.js("document.querySelectorAll('#tasks-list tbody tr').length") == size
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 19, 24)") is dark


CONTRAST = """
(function () {
  function light(color) {
    var parts = color.match(/[0-9.]+/g).slice(0, 3).map(function (one) {
      var part = Number(one) / 255;
      return part <= 0.03928 ? part / 12.92 : Math.pow((part + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  }
  function ground(element) {
    for (; element; element = element.parentElement) {
      var color = getComputedStyle(element).backgroundColor;
      if (color !== 'rgba(0, 0, 0, 0)') { return color; }
    }
    return 'rgb(255, 255, 255)';
  }
  var worst = 99;
  document.querySelectorAll('h1, h2, p, dt, dd, b, small, th, td, button, span, label').forEach(function (one) {
    if (!one.textContent.trim()) { return; }
    var a = light(getComputedStyle(one).color), b = light(ground(one));
    worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  });
  return worst;
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(browser: Page, pages: dict[int, Path], dark: bool) -> None:
    browser.open(pages[1], width=1440, dark=dark)
    assert browser.js(CONTRAST) >= 4.5


def test_it_is_told_to_those_who_do_not_see_it(browser: Page, pages: dict[int, Path]) -> None:
    browser.open(pages[1], width=1440)
    assert browser.js("document.documentElement.lang") == "en"
    assert browser.js("document.querySelectorAll('h1').length") == 1
    missing = "Array.from(document.querySelectorAll({0})).filter(e => {1}).length"
    assert browser.js(missing.format("'table'", "!document.getElementById(e.getAttribute('aria-labelledby'))")) == 0
    assert browser.js(missing.format("'th'", "e.scope !== 'col'")) == 0
    assert browser.js(missing.format("'svg'", "!e.ariaLabel && e.ariaHidden !== 'true'")) == 0
    assert browser.js(missing.format("'.wide'", "e.tabIndex !== 0")) == 0


def test_without_javascript_the_tables_are_there(browser: Page, pages: dict[int, Path]) -> None:
    browser.open(pages[1], width=390, scripts=False)
    try:
        node = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        rows = browser.call("DOM.querySelectorAll", nodeId=node, selector="#tasks-list tbody tr")["nodeIds"]
        buttons = browser.call("DOM.querySelectorAll", nodeId=node, selector="button, input")["nodeIds"]
        shapes = browser.call("DOM.querySelectorAll", nodeId=node, selector="svg rect")["nodeIds"]
        assert (len(rows), len(buttons)) == (1, 0)
        assert shapes
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_list_can_be_sorted_and_searched(browser: Page, pages: dict[int, Path]) -> None:
    browser.problems.clear()
    browser.open(pages[5000], width=1440)
    head = "document.querySelector('#tasks-list th:nth-child({})')"
    column = "Array.from(document.querySelectorAll('#tasks-list tbody tr')).map(r => r.cells[{0}].{1})"
    browser.js(head.format(7) + ".querySelector('button').click()")
    counts = [int(text) for text in browser.js(column.format(6, "textContent"))]
    assert counts == sorted(counts, reverse=True)
    assert browser.js(head.format(7) + ".getAttribute('aria-sort')") == "descending"
    browser.js(head.format(7) + ".querySelector('button').click()")
    counts = [int(text) for text in browser.js(column.format(6, "textContent"))]
    assert counts == sorted(counts)
    browser.js(
        "(function () { var i = document.querySelector('input'); i.value = 'NEEDS_HUMAN';"
        "i.dispatchEvent(new Event('input')); })()"
    )
    shown = browser.js(
        "Array.from(document.querySelectorAll('#tasks-list tbody tr')).filter(r => !r.hidden)"
        ".map(r => r.cells[2].textContent)"
    )
    assert set(shown) == {"needs_human"}
    assert browser.problems == []
