"""The schedules in tests/data/crontabs: enough of a reader to feed the cron tests, and no importer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).parents[1] / "data" / "crontabs"

_FIELD = re.compile(
    r"(?:[0-9*,/?#-]|JAN|FEB|MAR|APR|MAY|JU[NL]|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+",
    re.IGNORECASE,
)
_SETTING = re.compile(r"(?P<name>\w+)\s*=\s*(?P<value>\S+)")


class Line(NamedTuple):
    file: str
    number: int
    expr: str
    zone: str

    @property
    def label(self) -> str:
        return f"{self.file}:{self.number}"


def schedules() -> list[Line]:
    """Every line, comments aside, that begins with five fields or more, or with a nickname other than @reboot."""
    found = []
    for path in sorted(DIRECTORY.glob("*.crontab")):
        zone = "Europe/Madrid"
        for number, raw in enumerate(path.read_bytes().decode("utf-8").splitlines(), 1):
            if raw.lstrip().startswith("#"):
                continue
            setting = _SETTING.match(raw)
            if setting:
                if setting["name"] in ("TZ", "CRON_TZ"):
                    zone = setting["value"]
                continue
            words = raw.split()
            if words and words[0].startswith("@") and words[0] != "@reboot":
                found.append(Line(path.name, number, words[0], zone))
                continue
            count = 0
            while count < min(len(words), 7) and _FIELD.fullmatch(words[count]):
                count += 1
            if count >= 5:
                found.append(Line(path.name, number, " ".join(words[:count]), zone))
    return found
