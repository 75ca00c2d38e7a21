"""What the output of a run is made of: text of terminals, lines in memory, rows, hits, and causes of dead letters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.browser import Tab

# Feeds pieces [[stream, text, skipped], ...] and returns the lines: [stream, text, marks].
LINES = """async ([pieces, limits]) => {
  const { Lines } = await import("/ui/assets/x/components/output/lines.js");
  const lines = new Lines(limits ?? {});
  let at = 0;
  for (const [stream, text, skipped = 0] of pieces) {
    at += skipped;
    const size = new TextEncoder().encode(text).length;
    lines.add({ offset: at, text, stream, skipped }, at + size);
    at += size;
  }
  const list = lines.list.map((one) => [one.note ? `note ${one.note}` : one.stream, one.text, one.marks]);
  return { list, dropped: lines.dropped, characters: lines.characters, start: lines.start, end: lines.end };
}"""


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


def lines(tab: Tab, *pieces: tuple[Any, ...], **limits: int) -> Any:
    return tab.page.evaluate(LINES, [[list(piece) for piece in pieces], limits or None])


def texts(tab: Tab, *printed: str) -> list[str]:
    return [text for _, text, _ in lines(tab, *(("stdout", piece) for piece in printed))["list"]]


RED = {"fg": 1, "bg": None, "flags": 0}


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("one\ntwo\r\nthree", ["one", "two", "three"]),
        ("\n\n", ["", ""]),
        ("10%\r20%\r100%\n", ["100%"]),
        ("gone\r\x1b[Kkept\n", ["kept"]),
        ("kept\r\n", ["kept"]),
        ("a\tb", ["a       b"]),
        ("ab\bc", ["ac"]),
        ("\x1b[2J\x1b[5;5Hmoved\x1b[?25l", ["moved"]),
        ("\x1b]0;a title\x07shown", ["shown"]),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("\x1bP1;2|data\x1b\\after", ["after"]),
        ("\x1b(B\x1b=\x1b>text", ["text"]),
        ("\x1b]never ended\nnext line", ["", "next line"]),
        ("\x00\x07bell\x7f\x9b", ["bell"]),
        ("<script>alert(1)</script>&amp;", ["<script>alert(1)</script>&amp;"]),
        ("ümläut 日本 😀", ["ümläut 日本 😀"]),
    ],
)
def test_text_of_terminals(tab: Tab, printed: str, shown: list[str]) -> None:
    assert texts(tab, printed) == shown
    assert texts(tab, *printed.encode("utf-16", "surrogatepass").decode("utf-16")) == shown, "a character at a time"


def test_a_sequence_that_never_ends_hides_no_more_than_so_much(tab: Tab) -> None:
    found = texts(tab, "\x1b]", "x" * 10_000, "seen")
    assert "".join(found).endswith("xseen")
    assert texts(tab, "\x1b[" + "1;" * 5_000, "mseen")[-1].endswith("seen")


def test_colours_are_marks_in_a_line_and_go_on_in_the_next(tab: Tab) -> None:
    found = lines(tab, ("stdout", "a\x1b[31mred\nstill\x1b[0m not\n"), ("stderr", "plain\n"))["list"]
    assert found == [
        ["stdout", "ared", [1, RED]],
        ["stdout", "still not", [0, RED, 5, None]],
        ["stderr", "plain", None],
    ]


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("", None),
        ("1;31", {"fg": 1, "bg": None, "flags": 1}),
        ("38;5;208", {"fg": 208, "bg": None, "flags": 0}),
        ("48;2;1;2;3", {"fg": None, "bg": 0x1000000 | 0x010203, "flags": 0}),
        ("38:2::255:0:0", {"fg": 0x1000000 | 0xFF0000, "bg": None, "flags": 0}),
        ("38;5;208;4", {"fg": 208, "bg": None, "flags": 8}),
        ("38;5", None),
        ("38;2;300;0;0", None),
        ("97;107", {"fg": 15, "bg": 15, "flags": 0}),
        ("31;0", None),
        ("31;39", None),
        ("999;x", None),
    ],
)
def test_styles(tab: Tab, parameters: str, style: dict[str, Any] | None) -> None:
    assert tab.call("components/output/terminal.js", "restyled", None, parameters) == style


def test_every_colour_can_be_read_in_both_themes(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async () => {
          const { contrast, readable, rgbOf } = await import("/ui/assets/x/components/output/colours.js");
          const behind = [[255, 255, 255], [23, 27, 33], ...Array.from({ length: 256 }, (_, at) => rgbOf(at))];
          let least = 21;
          for (let at = 0; at < 256; at++) {
            for (const back of behind) least = Math.min(least, contrast(readable(rgbOf(at), back), back));
          }
          return least;
        }"""
    )
    assert found >= 4.5


def test_lines_of_two_streams_are_told_apart(tab: Tab) -> None:
    found = lines(tab, ("stdout", "one\ntw"), ("stderr", "oops\n"), ("stdout", "o\n"), ("stdout", "end\n", 100))
    assert [one[:2] for one in found["list"]] == [
        ["stdout", "one"],
        ["stdout", "two"],
        ["stderr", "oops"],
        ["note 100", ""],
        ["stdout", "end"],
    ]
    assert (found["start"], found["end"]) == (0, 117)


def test_no_more_lines_than_so_many(tab: Tab) -> None:
    pieces = [("stdout", "".join(f"line {piece * 100 + at} ü\n" for at in range(100))) for piece in range(50)]
    found = lines(tab, *pieces, lines=1_000, characters=100_000)
    count = len(found["list"])
    assert count <= 1_050
    assert found["dropped"] == 5_000 - count
    assert found["characters"] == sum(len(text) for _, text, _ in found["list"])
    first = found["list"][0][1]
    assert first == f"line {found['dropped']} ü"
    before = "".join(text for _, text in pieces).partition(f"{first}\n")[0]
    assert found["start"] == len(before.encode()), "there more can be loaded from"
    found = lines(tab, *pieces, lines=100_000, characters=1_000)
    assert found["characters"] <= 1_050


def test_a_long_line_is_several(tab: Tab) -> None:
    found = lines(tab, ("stdout", "x" * 10_000), ("stdout", "y\nz"))["list"]
    assert [len(text) for _, text, _ in found] == [4_096, 4_096, 1_809, 1]


def test_rows_are_those_of_all_lines(tab: Tab) -> None:
    """However lines come and go: each row is at its place, and so much was taken away as is said."""
    seed = random.SystemRandom().randrange(1 << 31)
    print("seed", seed)
    faults = tab.page.evaluate(
        """async (seed) => {
          const { Lines, Rows } = await import("/ui/assets/x/components/output/lines.js");
          const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
          const lines = new Lines({ lines: 200, characters: 4000 });
          const rows = new Rows(lines);
          let at = 0, columns = 0, top = null;
          for (let turn = 0; turn < 400; turn++) {
            if (random(10) === 0) { columns = [0, 10, 33][random(3)]; top = null; }
            const stream = random(4) ? "stdout" : "stderr";
            let text = "";
            for (let i = random(9); i > 0; i--) text += "x".repeat(random(40)) + (random(3) ? "\\n" : "");
            lines.add({ offset: at, text, stream }, (at += text.length));
            const gone = rows.update(columns);
            let total = 0;
            for (let line = 0; line < lines.list.length; line++) {
              const height = columns ? Math.max(1, Math.ceil(lines.list[line].text.length / columns)) : 1;
              if (rows.rowOf(line) !== total) return `turn ${turn}: row of ${line}`;
              for (let part = 0; part < height; part++) {
                const [found, which] = rows.at(total + part);
                if (found !== line || which !== part) return `turn ${turn}: at ${total + part}`;
              }
              total += height;
            }
            if (rows.total !== total) return `turn ${turn}: total`;
            if (top !== null && top >= lines.dropped) {
              const now = rows.rowOf(top - lines.dropped);
              if (!columns && before - gone !== now) return `turn ${turn}: gone ${gone}`;
            }
            top = lines.dropped + lines.list.length - 1;
            var before = rows.rowOf(top - lines.dropped);
          }
          return null;
        }""",
        seed,
    )
    assert faults is None


def test_earlier_lines_are_put_before(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async () => {
          const { Lines } = await import("/ui/assets/x/components/output/lines.js");
          const [older, lines] = [new Lines(), new Lines({ lines: 5, characters: 1000 })];
          older.add({ offset: 0, text: "a\\nb\\nc", stream: "stdout" }, 5);
          lines.add({ offset: 5, text: "c\\nd\\ne\\n", stream: "stdout" }, 11);
          const over = lines.prepend(older);
          return [over, lines.dropped, lines.start, lines.list.map((one) => one.text), lines.list[3].joined];
        }"""
    )
    assert found == [True, -3, 0, ["a", "b", "c", "c", "d"], True]


def test_search_finds_what_is_there_and_what_comes(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async () => {
          const { Lines } = await import("/ui/assets/x/components/output/lines.js");
          const { Search, matcher } = await import("/ui/assets/x/components/output/search.js");
          const lines = new Lines({ lines: 1000, characters: 1e6 });
          const search = new Search(lines, matcher("needle (1)"));
          const seen = [];
          let at = 0;
          for (let turn = 0; turn < 30; turn++) {
            let text = "";
            for (let i = turn * 100; i < turn * 100 + 100; i++) text += `${i % 50 ? "hay" : "a NEEDLE (1)"} ${i}\\n`;
            lines.add({ offset: at, text, stream: "stdout" }, (at += text.length));
            search.go(1000);
            const real = [];
            lines.list.forEach(({ text }, line) => text.includes("NEEDLE") && real.push(line + lines.dropped));
            if (JSON.stringify(real) !== JSON.stringify(search.found)) seen.push(turn);
          }
          const { found } = search;
          const next = [search.next(found[2], false), search.next(found[2], true), search.next(found.at(-1), false)];
          const right = next.map((line, at) => line === found[[3, 1, 0][at]]);
          return [seen, ...right, matcher("A").test("a"), matcher("a").test("A")];
        }"""
    )
    assert found == [[], True, True, True, False, True]


def test_a_row_is_cut_where_its_style_or_a_hit_begins(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async () => {
          const { matcher, parts } = await import("/ui/assets/x/components/output/search.js");
          const line = { text: "0123456789", marks: [2, "red", 6, null] };
          const shown = (list) => list.map(({ text, style, hit }) => [text, style, hit]);
          const none = parts({ text: "" }, 0, 5, null);
          return [shown(parts(line, 0, 10, null)), shown(parts(line, 4, 8, matcher("567"))), shown(none)];
        }"""
    )
    assert found[0] == [["01", None, False], ["2345", "red", False], ["6789", None, False]]
    assert found[1] == [["4", "red", False], ["5", "red", True], ["67", None, True]]
    assert found[2] == []


def letter(name: str, error: str, **more: Any) -> dict[str, Any]:
    base = {"job_id": name, "state": "FAILED", "reason": None, "exit_code": 1, "dead_since": "2026-01-01"}
    return {"id": f"{name}@1", "error": error, **base, **more}


def test_dead_letters_of_one_cause(tab: Tab) -> None:
    letters = [
        letter("a", "exit code 1\nno route to host 10.0.0.1 (try 3)\n", dead_since="2026-01-03"),
        letter("a", "exit code 1\nno route to host 10.0.0.27 (try 4)", dead_since="2026-01-02"),
        letter("b", "exit code 1\nno route to host 10.0.0.1 (try 3)"),
        letter("a", "exit code 2\nno route to host 10.0.0.1 (try 3)", exit_code=2),
        letter("a", "request 6f1c2d3e-0000-4000-8000-aaaaaaaaaaaa failed"),
        letter("a", "request 7a1c2d3e-1111-4000-8000-bbbbbbbbbbbb failed"),
        letter("a", "", reason="lost"),
    ]
    groups = tab.call("pages/causes.js", "byCause", letters)
    assert [len(group["letters"]) for group in groups] == [2, 2, 1, 1, 1]
    assert (groups[0]["first"], groups[0]["last"]) == ("2026-01-02", "2026-01-03")
    assert groups[0]["sample"]["dead_since"] == "2026-01-03"
