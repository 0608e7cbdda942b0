"""Every route on one screen."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from mailboxes.api.keyring import RotateSigningKeyView
from mailboxes.api.keys import KeysView, KeyView, MeView, RotateKeyView
from outbound.api.answering import ForwardView, ReplyAllView, ReplyView
from outbound.api.files import AttachmentView, LinkView, RawView
from outbound.api.messages import AttemptsView, MessagesView, MessageView, ResolveView
from outbound.api.threads import ThreadsView, ThreadView
from pylota.api.views import HealthView, OpenApiView
from pylota.reference import reference
from suppressions.api.lists import SendListEntryView, SendListView
from suppressions.api.suppressions import SuppressionsView, SuppressionView

v1: list[URLPattern | URLResolver] = [
    path("me", MeView.as_view(), name="me"),
    path("keys", KeysView.as_view(), name="keys"),
    path("keys/<str:key_id>", KeyView.as_view(), name="key"),
    path("keys/<str:key_id>/rotate", RotateKeyView.as_view(), name="key-rotate"),
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
        "tenants/<str:tenant_id>/suppressions",
        SuppressionsView.as_view(),
        name="suppressions",
    ),
    path(  # a local part may hold a slash
        "tenants/<str:tenant_id>/suppressions/<path:address>",
        SuppressionView.as_view(),
        name="suppression",
    ),
    path(
        "tenants/<str:tenant_id>/lists/<str:direction>/<str:kind>",
        SendListView.as_view(),
        name="list",
    ),
    path(
        "tenants/<str:tenant_id>/lists/<str:direction>/<str:kind>/<path:entry>",
        SendListEntryView.as_view(),
        name="list-entry",
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
