"""Random cron expressions."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


@st.composite
def item(draw: st.DrawFn, low: int, high: int, names: list[str] | None = None, wrap: bool = False) -> str:
    def value(number: int) -> str:
        if names and draw(st.booleans()):
            return names[(number - low) % len(names)]
        return f"{number:02}" if draw(st.integers(0, 9)) == 0 else str(number)

    shape = draw(st.sampled_from(["star", "star/", "one", "one", "one", "one/", "range", "range", "range/"]))
    step = draw(st.integers(1, high - low + 2))
    if shape == "star":
        return "*"
    if shape == "star/":
        return f"*/{step}"
    first = draw(st.integers(low, high))
    if shape == "one":
        return value(first)
    if shape == "one/":
        return f"{value(first)}/{step}"
    last = draw(st.integers(low, high))
    if first > last and not wrap:
        first, last = last, first
    left, right = str(first), str(last)
    if names and (wrap or last - low < len(names)) and draw(st.booleans()):
        left, right = names[(first - low) % len(names)], names[(last - low) % len(names)]
    if shape == "range" or (first == last and not wrap):  # others read n-n/s as n-max/s
        return f"{left}-{right}"
    return f"{left}-{right}/{step}"


def field(low: int, high: int, names: list[str] | None = None, wrap: bool = False) -> SearchStrategy[str]:
    return st.lists(item(low, high, names, wrap), min_size=1, max_size=3).map(",".join)


def often(common: list[str], rest: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.one_of(st.sampled_from(common), rest)


MINUTE = often(["0", "*", "*/15", "30"], field(0, 59))
HOUR = often(["*", "2", "0", "*/2"], field(0, 23))
DAY = often(["*", "*", "1", "31", "29,30", "L", "LW", "1-31", "*/10"], field(1, 31))
MONTH = often(["*", "*", "*", "2", "2-4"], field(1, 12, MONTHS))
WEEKDAY = often(["*", "*", "1-5", "5L", "MON#2", "0#5", "7", "MON-FRI", "*/2", "5-7"], field(0, 7, DAYS))


def five_fields() -> SearchStrategy[str]:
    """What Vixie cron and cronsim both understand."""
    return st.tuples(MINUTE, HOUR, DAY, MONTH, WEEKDAY).map(" ".join)


def many_fields() -> SearchStrategy[str]:
    """All of this project's own grammar except H: five, six and seven fields, wrapped ranges, L, W, # and ?."""
    second = often(["0", "*", "*/20", "15,45"], field(0, 59, wrap=True))
    minute = often(["0", "*", "*/20", "30", "15-45/15", "50-10/5"], field(0, 59, wrap=True))
    hour = often(["*", "*", "1", "2", "3", "0-4", "2-3", "*/2", "23-2"], field(0, 23, wrap=True))
    day = often(["*", "*", "*", "L", "L-2", "LW", "15W", "1W", "31W", "L-1W", "*/2", "25-31"], field(1, 31))
    month = often(["*", "*", "*", "*", "NOV-APR"], field(1, 12, MONTHS, wrap=True))
    names = [*(f"{name}#{nth}" for name in DAYS for nth in range(1, 6)), *(f"{name}L" for name in DAYS)]
    weekday = often(["*", "*", "*", "SUN", "FRI-MON", "LSUN", *names], field(0, 7, DAYS, wrap=True))
    named = often(["*", "?", "SUN", "SAT-SUN", "MON-FRI"], st.sampled_from(names))
    year = often(["*", "*"], field(2024, 2030))
    return st.one_of(
        st.tuples(minute, hour, day, month, weekday),
        st.tuples(second, minute, hour, day, month, weekday),
        st.tuples(second, minute, hour, day, month, named, year),
        st.tuples(minute, hour, st.just("?"), month, st.sampled_from(names)),
    ).map(" ".join)


def day_fields() -> SearchStrategy[str]:
    """Day of month, month and weekday, the forms beyond crontab(5) more often than not."""
    end = st.integers(0, 4).map(lambda back: f"L-{back}")
    near = st.integers(1, 31).map(lambda day: f"{day}W")
    day = st.lists(st.one_of(item(1, 31), near, end, end.map(lambda text: text + "W")), min_size=1, max_size=2)
    names = [*(f"{name}#{nth}" for name in DAYS for nth in range(1, 6)), *(f"{name}L" for name in DAYS)]
    weekday = st.lists(item(0, 7, DAYS, wrap=True) | st.sampled_from(names), min_size=1, max_size=2)
    month = often(["*", "*", "*"], field(1, 12, MONTHS, wrap=True))
    return st.tuples(often(["*"], day.map(",".join)), month, often(["*", "*"], weekday.map(",".join))).map(" ".join)
