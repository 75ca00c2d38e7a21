"""Random recurrence rules that RFC 5545 allows and dateutil reads alike."""

from __future__ import annotations

from hypothesis import strategies as st

DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
FREQS = ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
_INTERVALS = {"YEARLY": 4, "MONTHLY": 15, "WEEKLY": 9, "DAILY": 40, "HOURLY": 60, "MINUTELY": 200, "SECONDLY": 5_000}


def _some(draw: st.DrawFn, low: int, high: int, *, signed: bool = False, most: int = 4) -> str:
    number = st.integers(low, high)
    if signed:
        number = st.one_of(number, number.map(lambda n: -n))
    return ",".join(str(n) for n in draw(st.lists(number, min_size=1, max_size=most, unique=True)))


@st.composite
def rules(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(FREQS))
    parts = [f"FREQ={freq}"]

    def maybe(chance: int = 3) -> bool:
        return draw(st.integers(1, chance)) == 1

    if maybe(2):
        parts.append(f"INTERVAL={draw(st.integers(1, _INTERVALS[freq]))}")
    months = maybe()
    if months:
        parts.append("BYMONTH=" + _some(draw, 1, 12))
    if freq != "WEEKLY" and maybe():
        parts.append("BYMONTHDAY=" + _some(draw, 1, 31, signed=True))
    if freq == "YEARLY" and maybe(5):
        parts.append("BYYEARDAY=" + _some(draw, 1, 366, signed=True))
    weeks = freq == "YEARLY" and maybe(4)
    if weeks:
        # of a week that lies in two years dateutil counts the number by the length of the wrong one
        parts.append("BYWEEKNO=" + _some(draw, 2, 51))
    if weeks or maybe(2):
        days = draw(st.lists(st.sampled_from(DAYS), min_size=1, max_size=3, unique=True))
        if (
            freq in ("YEARLY", "MONTHLY") and not weeks and maybe(2)
        ):  # dateutil wants those with and without number both
            most = 5 if months or freq == "MONTHLY" else 53
            numbers = st.one_of(st.integers(1, most), st.integers(-most, -1))
            days = [f"{draw(numbers)}{day}" for day in days]
        parts.append("BYDAY=" + ",".join(days))
    if maybe(2):
        parts.append("BYHOUR=" + draw(st.sampled_from(["2", "1,2,3", "0", "23", _some(draw, 0, 23)])))
    if maybe(2):
        parts.append("BYMINUTE=" + _some(draw, 0, 59))
    if maybe(2):
        parts.append("BYSECOND=" + _some(draw, 0, 59, most=2))
    # dateutil counts positions in what is left of the first week
    if len(parts) > 2 and any(p.startswith("BY") for p in parts) and freq != "WEEKLY" and maybe(4):
        parts.append("BYSETPOS=" + _some(draw, 1, 6, signed=True, most=2))
    if maybe(3):
        parts.append(f"WKST={draw(st.sampled_from(DAYS))}")
    if maybe(4):
        parts.append(f"COUNT={draw(st.integers(1, 40))}")
    return ";".join(parts)
