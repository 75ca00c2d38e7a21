"""What is done later, in supervised processes, with the models."""

from django.db.models import F

from billing.models import Invoice
from raftsched.django import handler, job


@handler("send-invoice")
def send_invoice(number: int) -> str:
    invoice = Invoice.objects.get(number=number)
    if invoice.sent:  # a run may come twice
        return "was sent"
    print(f"sending invoice {number}")
    Invoice.objects.filter(number=number).update(sent=F("sent") + 1)
    return "sent"


@job("send-forgotten", every="1m")
def send_forgotten() -> int:
    """Enqueues what a web process committed and then died before it enqueued it. The key makes it one job."""
    numbers = list(Invoice.objects.filter(sent=0).values_list("number", flat=True)[:1000])
    for number in numbers:
        send_invoice.enqueue(number, key=str(number))
    return len(numbers)


@job("nightly-report", cron="0 2 * * *", timezone="Europe/Madrid")
def nightly_report() -> None:
    print(f"{Invoice.objects.exclude(sent=0).count()} invoices were sent")
