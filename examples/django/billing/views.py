from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from billing.models import Invoice
from billing.tasks import send_invoice


@csrf_exempt  # curl has no token
def invoice(request: HttpRequest, number: int) -> JsonResponse:
    """POST makes an invoice, which is sent once it is committed. GET says whether it was."""
    if request.method == "POST":
        with transaction.atomic():
            Invoice.objects.create(number=number)
            send_invoice.enqueue_on_commit(number, key=str(number))
        return JsonResponse({"number": number}, status=201)
    return JsonResponse({"number": number, "sent": get_object_or_404(Invoice, number=number).sent})
