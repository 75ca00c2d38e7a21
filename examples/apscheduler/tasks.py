"""The functions of the program. Nothing here is about a scheduler."""

from __future__ import annotations

import time
from pathlib import Path


def send_invoice(number: int, to: str) -> None:
    """Writes an invoice into a directory, which stands for a mail server. It is slow while a file `slow` is there. The
    function runs again when the process that ran it was lost, and writes the same file then."""
    sent = Path(to)
    (sent / f"invoice-{number}.begun").touch()
    while (sent / "slow").exists():
        time.sleep(0.05)
    (sent / f"invoice-{number}.sent").write_text(f"invoice {number}\n")


def tick(to: str) -> None:
    """Leaves a line each time."""
    with (Path(to) / "ticks").open("a") as file:
        file.write("tick\n")
