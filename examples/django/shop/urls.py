from billing import views
from django.contrib import admin
from django.urls import path

from raftsched.django.views import health

urlpatterns = [
    path("admin/", admin.site.urls),
    path("invoices/<int:number>", views.invoice),
    path("health", health),
]
