"""The page's modules one by one, in the browser but without a cluster: their files are answered from the disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import raftsched
from tests.support.browser import Tab
from tests.unit.test_error_texts import CASES

STATIC = Path(raftsched.__file__).parent / "ui" / "static"
TOP = re.compile(r"^(?:export )?(?:(?:async )?function\*?|class|const|let) ([\w$]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    """`tab.call("core/format.js", "bytes", 1000)` calls an exported function; `tab.page.evaluate` does more."""
    return units


# ---------------------------------------------------------------- numbers and times


@pytest.mark.parametrize(
    "function, value, text",
    [
        ("number", 1234567, "1,234,567"),
        ("number", None, "–"),
        ("percent", 0.005, "0.5 %"),
        ("percent", 0, "0 %"),
        ("percent", 1, "100 %"),
        ("bytes", 0, "0 B"),
        ("bytes", 999, "999 B"),
        ("bytes", 1000, "1.0 kB"),
        ("bytes", 20_000_000, "20 MB"),
        ("bytes", None, "–"),
        ("duration", 12, "12 ms"),
        ("duration", 3_400, "3.4 s"),
        ("duration", 59_000, "59 s"),
        ("duration", 302_000, "5 min 2 s"),
        ("duration", 3_600_000, "1 h"),
        ("duration", 187_200_000, "2 d 4 h"),
        ("duration", -5_000, "-5.0 s"),
        ("duration", None, "–"),
    ],
)
def test_amounts_as_text(tab: Tab, function: str, value: float | None, text: str) -> None:
    assert tab.call("core/format.js", function, value) == text


def test_the_line_of_an_error_that_says_what_happened(tab: Tab) -> None:
    """As `raftsched.error_texts` finds it."""
    for error, line in CASES:
        assert tab.call("core/errors.js", "tellingLine", error) == line
    assert tab.call("core/errors.js", "tellingLine", None) == ""


def test_moments_relative_and_absolute(tab: Tab) -> None:
    now = 1_795_000_000_000

    def ago(away_ms: int) -> str:
        return str(tab.call("core/format.js", "ago", now + away_ms, now))

    assert ago(0) == "just now"
    assert ago(500) == "in a moment"
    assert ago(-180_000) == "3 min. ago"
    assert ago(7_200_000) == "in 2 hr."
    assert tab.call("core/format.js", "absolute", now, "Europe/Madrid") == "2026-11-18 12:06:40"
    assert tab.call("core/format.js", "absolute", now, "UTC") == "2026-11-18 11:06:40"


@pytest.mark.parametrize(
    "printed, text",
    [
        ("\x1b[1;31mred\x1b[0m\n\ttab", "red\n\ttab"),
        ("\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after\x1b[2J\x1b[H\x1bM", "after"),
        ("a\r\x00b\x7f\x1b", "ab"),
    ],
)
def test_what_was_said_to_a_terminal_is_left_out(units: Tab, printed: str, text: str) -> None:
    assert units.call("core/format.js", "plain", printed) == text


# ---------------------------------------------------------------- events, addresses


def test_events_come_whole_out_of_pieces(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async () => {
          const { makeEventParser } = await import("/ui/assets/x/core/event-parser.js");
          const parse = makeEventParser();
          return ["id: 7\\nevent: job\\nda", "ta: a\\ndata: b\\n", "\\n: beat\\n\\ndata:c\\n\\n"].map(parse);
        }"""
    )
    assert found[0] == found[1] == []
    assert found[2] == [
        {"id": "7", "event": "job", "data": "a\nb"},
        {"id": None, "event": "message", "data": ""},
        {"id": None, "event": "message", "data": "c"},
    ]


@pytest.mark.parametrize(
    "path, title, params",
    [
        ("/ui/", "Overview", {}),
        ("/ui/jobs/new", "New job", {}),
        ("/ui/jobs/0d3k5xw2a9f4m", "Job", {"id": "0d3k5xw2a9f4m"}),
        ("/ui/runs/0d3k5xw2a9f4m%401763600400000", "Run", {"id": "0d3k5xw2a9f4m@1763600400000"}),
        ("/ui/nothing/here", None, None),
        ("/ui/jobs/%E0%A4%A", None, None),
    ],
)
def test_addresses_name_pages(tab: Tab, path: str, title: str | None, params: dict[str, str] | None) -> None:
    found = tab.page.evaluate(
        """async (path) => {
          const { match } = await import("/ui/assets/x/core/router.js");
          const { ROUTES } = await import("/ui/assets/x/core/routes.js");
          const found = match(path, ROUTES);
          return found && [found.route.title, found.params];
        }""",
        path,
    )
    assert found == (title and [title, params])


def test_no_module_has_a_name_of_the_browser(tab: Tab) -> None:
    """They share one scope when they are sent: another one would get what it has for what the browser has."""
    names = sorted({name for path in STATIC.rglob("*.js") for name in TOP.findall(path.read_text())})
    found = tab.page.evaluate("(names) => names.filter((name) => name in window)", names)
    assert set(names) > {"h", "ROUTES", "session"}
    assert found == []


# ---------------------------------------------------------------- descriptions of elements


def rendered(tab: Tab, *descriptions: str) -> str:
    """The HTML after these were rendered one after the other, each an expression of `h`."""
    html: str = tab.page.evaluate(
        """async (descriptions) => {
          const { h, render } = await import("/ui/assets/x/core/vdom.js");
          const place = document.createElement("div");
          window.place = place;
          for (const make of descriptions.map((text) => window.made[text])) render(make(h), place);
          return place.innerHTML;
        }""",
        list(descriptions),
    )
    return html


@pytest.fixture(scope="module")
def made(tab: Tab) -> Tab:
    """Descriptions by name: the policy lets no test send code as text."""
    tab.page.evaluate(
        """() => {
          const list = (...keys) => (h) => h("ul", null, keys.map((key) => h("li", { key }, key)));
          window.made = {
            text: (h) => h("p", { title: "<b>" }, "<script>alert(1)</script>", null, false, 7),
            abc: list("a", "b", "c"), cab: list("c", "a", "b"), ac: list("a", "c"), none: list(),
            style: (h) => h("i", { style: { color: "red", "--x": "1" }, class: ["a", false, "b"] }),
            plain: (h) => h("i", { class: "a" }),
            svg: (h) => h("svg", { viewBox: "0 0 1 1" }, h("foreignObject", null, h("p", null, "x"))),
            select: (h) => h("select", { value: "2" }, ["1", "2"].map((value) => h("option", { value }, value))),
          };
        }"""
    )
    return tab


def test_text_is_never_html(made: Tab) -> None:
    assert (
        rendered(made, "text") == '<p title="<b>">&lt;script&gt;alert(1)&lt;/script&gt;7</p>'
        or rendered(made, "text") == '<p title="&lt;b&gt;">&lt;script&gt;alert(1)&lt;/script&gt;7</p>'
    )


def test_lists_become_those_described(made: Tab) -> None:
    assert rendered(made, "abc", "cab") == "<ul><li>c</li><li>a</li><li>b</li></ul>"
    assert rendered(made, "abc", "ac", "abc") == "<ul><li>a</li><li>b</li><li>c</li></ul>"
    assert rendered(made, "abc", "none") == "<ul></ul>"


def test_elements_with_keys_stay_themselves(made: Tab) -> None:
    same = made.page.evaluate(
        """async () => {
          const { h, render } = await import("/ui/assets/x/core/vdom.js");
          const place = document.createElement("div");
          render(made.abc(h), place);
          const before = [...place.querySelectorAll("li")];
          render(made.cab(h), place);
          const after = [...place.querySelectorAll("li")];
          return [after[0] === before[2], after[1] === before[0], after[2] === before[1]];
        }"""
    )
    assert same == [True, True, True]


def test_attributes_and_styles_follow(made: Tab) -> None:
    assert rendered(made, "style") == '<i class="a b" style="color: red; --x: 1;"></i>'
    assert rendered(made, "style", "plain") == '<i class="a" style=""></i>'
    rendered(made, "svg")
    spaces = made.page.evaluate("() => [...place.querySelectorAll('*')].map((node) => node.namespaceURI.slice(-4))")
    assert spaces == ["/svg", "/svg", "html"]
    rendered(made, "select")
    assert made.page.evaluate("() => place.querySelector('select').value") == "2"
