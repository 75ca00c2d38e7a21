"""Letters and digits as apply reads them: of ASCII alone. What other letters fold to, and what is a letter at all,
depends on the version of Unicode, and so on that of Python: nodes of two versions would come to different rows."""

from __future__ import annotations

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def lower(text: str) -> str:
    """Returns the text with A to Z in lower case."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def is_number(text: str) -> bool:
    """Returns whether it is digits, 0 to 9, and nothing else."""
    return text.isascii() and text.isdigit()
