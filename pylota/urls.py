"""Every route on one screen."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("local/", include("pylota.catcher.views")),  # 404 but in the local environment
]
