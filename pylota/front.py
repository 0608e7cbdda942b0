"""What a person finds who opens the deployment in a browser without a path."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from pylota.catcher.views import local_only


@local_only
def home(request: HttpRequest) -> HttpResponse:
    """Link to what there is to see, in the local environment."""
    return render(request, "local/home.html")


@require_safe
def to_the_admin(request: HttpRequest) -> HttpResponse:
    """Add the slash, as nothing else does here."""
    return redirect("admin:index")


urlpatterns: list[URLPattern] = [
    path("", home, name="local-home"),  # 404 but in the local environment
    path("admin", to_the_admin, name="to-the-admin"),
]
