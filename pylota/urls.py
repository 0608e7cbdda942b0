"""Every route on one screen."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from mailboxes.api.addresses import (
    AddressesView,
    AddressView,
    PromoteView,
    RetireView,
)
from mailboxes.api.audit import AuditEventsView
from mailboxes.api.identities import (
    IdentitiesView,
    IdentityView,
    LookupView,
    TenantIdentitiesView,
)
from mailboxes.api.keyring import RotateSigningKeyView
from mailboxes.api.policies import PolicyView
from mailboxes.api.tenants import TenantsView, TenantView
from outbound.api.answering import ForwardView, ReplyAllView, ReplyView
from outbound.api.files import AttachmentView, LinkView, RawView
from outbound.api.messages import AttemptsView, MessagesView, MessageView, ResolveView
from outbound.api.threads import ThreadsView, ThreadView
from pylota.api.views import HealthView, MeView, OpenApiView
from pylota.reference import reference

identity_routes: list[URLPattern] = [
    path(
        "tenants/<str:tenant_id>/identities",
        TenantIdentitiesView.as_view(),
        name="tenant-identities",
    ),
    path("identities", IdentitiesView.as_view(), name="identities"),
    path("identities/lookup", LookupView.as_view(), name="identity-lookup"),
    path("identities/<str:identity_id>", IdentityView.as_view(), name="identity"),
    path(
        "identities/<str:identity_id>/addresses",
        AddressesView.as_view(),
        name="addresses",
    ),
    path(
        "identities/<str:identity_id>/addresses/<str:address_id>",
        AddressView.as_view(),
        name="address",
    ),
    path(
        "identities/<str:identity_id>/addresses/<str:address_id>/promote",
        PromoteView.as_view(),
        name="address-promote",
    ),
    path(
        "identities/<str:identity_id>/addresses/<str:address_id>/retire",
        RetireView.as_view(),
        name="address-retire",
    ),
]

v1: list[URLPattern | URLResolver] = [
    path("me", MeView.as_view(), name="me"),
    path("tenants", TenantsView.as_view(), name="tenants"),
    path("tenants/<str:tenant_id>", TenantView.as_view(), name="tenant"),
    path("tenants/<str:tenant_id>/policy", PolicyView.as_view(), name="tenant-policy"),
    path("audit-events", AuditEventsView.as_view(), name="audit-events"),
    *identity_routes,
    path("identities/<str:identity_id>/threads", ThreadsView.as_view(), name="threads"),
    path(
        "identities/<str:identity_id>/threads/<str:thread_id>",
        ThreadView.as_view(),
        name="thread",
    ),
    path(
        "identities/<str:identity_id>/messages", MessagesView.as_view(), name="messages"
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>",
        MessageView.as_view(),
        name="message",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/attempts",
        AttemptsView.as_view(),
        name="message-attempts",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/reply",
        ReplyView.as_view(),
        name="message-reply",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/reply-all",
        ReplyAllView.as_view(),
        name="message-reply-all",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/forward",
        ForwardView.as_view(),
        name="message-forward",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/resolve",
        ResolveView.as_view(),
        name="message-resolve",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>/raw",
        RawView.as_view(),
        name="message-raw",
    ),
    path(
        "identities/<str:identity_id>/messages/<str:message_id>"
        "/attachments/<str:attachment_id>",
        AttachmentView.as_view(),
        name="message-attachment",
    ),
    path(
        "platform/keys/<str:purpose>/rotate",
        RotateSigningKeyView.as_view(),
        name="signing-key-rotate",
    ),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("health", HealthView.as_view(), name="health"),
    path("openapi.json", OpenApiView.as_view(), name="openapi"),
    path("docs", reference, name="reference"),
    path("v1/links/<str:token>", LinkView.as_view(), name="link"),  # its MAC is the key
    path("v1/", include(v1)),
    path("admin/", admin.site.urls),
    path("", include("pylota.front")),
    path("local/", include("pylota.catcher.views")),  # 404 but in the local environment
]

handler400 = "pylota.api.errors.bad_request"
handler403 = "pylota.api.errors.permission_denied"
handler404 = "pylota.api.errors.not_found"
handler500 = "pylota.api.errors.server_error"
