"""What runs later, in processes beside the application: the node finds these functions by name."""

from __future__ import annotations

import time
from pathlib import Path

import raftsched


@raftsched.handler("send-invoice")
def send_invoice(number: int, to: str = "sent") -> dict[str, int]:
    """Writes an invoice into a directory, which stands for a mail server. It is slow while a file `slow` is there. The
    function runs again when the process that ran it was lost, and writes the same file then."""
    sent = Path(to)
    sent.mkdir(exist_ok=True)
    (sent / f"invoice-{number}.begun").touch()
    while (sent / "slow").exists():
        time.sleep(0.05)
    (sent / f"invoice-{number}.sent").write_text(f"invoice {number}\n")
    return {"sent": number}


@raftsched.job("nightly-report", cron="0 2 * * *", timezone="Europe/Madrid")
def nightly_report(to: str = "sent") -> None:
    """Says what was sent."""
    print(f"{len(list(Path(to).glob('*.sent')))} invoices were sent")
