"""A program with APScheduler, before it moved."""

from __future__ import annotations

import os
import signal

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from tasks import send_invoice, tick

SENT = os.path.abspath(os.environ.get("SHOP_SENT", "sent"))


def main() -> None:
    """Adds its jobs, and does its own work until somebody ends it."""
    os.makedirs(SENT, exist_ok=True)
    store = SQLAlchemyJobStore(url="sqlite:///jobs.sqlite")
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="Europe/Madrid")
    scheduler.start()
    scheduler.add_job(tick, "interval", seconds=1, args=[SENT], id="tick", replace_existing=True)
    scheduler.add_job(send_invoice, "cron", hour=2, args=[7, SENT], id="invoice", replace_existing=True)
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    scheduler.shutdown()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    main()
