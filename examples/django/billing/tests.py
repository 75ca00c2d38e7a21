"""manage.py test"""

from django.test import TestCase, TransactionTestCase

import raftsched.django.testing
import raftsched.testing
from billing.models import Invoice
from billing.tasks import nightly_report, send_invoice


class Inline(TestCase):
    def setUp(self) -> None:
        self.runs = self.enterContext(raftsched.testing.inline())

    def test_an_invoice_is_sent_once_it_is_committed(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/invoices/7")
            assert self.runs == []
        (run,) = self.runs
        assert (run.handler, run.params, run.result) == ("send-invoice", {"number": 7}, "sent")
        assert Invoice.objects.get(number=7).sent == 1

    def test_functions_are_functions(self) -> None:
        nightly_report()


class OnACluster(TransactionTestCase):
    def test_an_invoice_is_sent(self) -> None:
        with raftsched.django.testing.cluster() as cluster:
            Invoice.objects.create(number=8)
            job = send_invoice.enqueue(8)
            assert cluster.client.jobs.wait(job, timeout=60).result == "sent"
        assert Invoice.objects.get(number=8).sent == 1
