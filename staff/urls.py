"""The admin's own pages, then the theme's."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

from staff.second_factor import second_factor

urlpatterns: list[URLPattern | URLResolver] = [
    path(
        "second-factor/",
        admin.site.admin_view(second_factor),
        name="second-factor",
    ),
    path("", admin.site.urls),
]
