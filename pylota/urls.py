"""Every route on one screen."""

from collections.abc import Sequence
from typing import Final

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from rest_framework.views import APIView

from delivery.api.ses_hook import SesHookView
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
from mailboxes.api.keys import KeysView, KeyView, MeView, RotateKeyView
from mailboxes.api.policies import PolicyView
from mailboxes.api.tenants import TenantsView, TenantView
from outbound.api.answering import ForwardView, ReplyAllView, ReplyView
from outbound.api.cancel import CancelView
from outbound.api.files import AttachmentView, LinkView, RawView
from outbound.api.messages import AttemptsView, MessagesView, MessageView, ResolveView
from outbound.api.resolving import ResolveManyView
from outbound.api.threads import ThreadsView, ThreadView
from pylota.api.views import HealthView, OpenApiView
from pylota.reference import reference
from quota.api.billing import BillingView, PlansView
from quota.api.usage import DailyUsageView, UsageView
from suppressions.api.lists import SendListEntryView, SendListView
from suppressions.api.suppressions import SuppressionsView, SuppressionView
from webhooks.api.deliveries import (
    DeliveriesView,
    ReplayView,
    RotateSecretView,
    WebhookTestView,
)
from webhooks.api.events import EventsView
from webhooks.api.webhooks import TenantWebhooksView, WebhooksView, WebhookView

IDENTITY: Final = "identities/<str:identity_id>"
MESSAGE: Final = f"{IDENTITY}/messages/<str:message_id>"
TENANT: Final = "tenants/<str:tenant_id>"
WEBHOOK: Final = "webhooks/<str:webhook_id>"

ROUTES: Final[Sequence[tuple[str, type[APIView], str]]] = (
    ("me", MeView, "me"),
    ("keys", KeysView, "keys"),
    ("keys/<str:key_id>", KeyView, "key"),
    ("keys/<str:key_id>/rotate", RotateKeyView, "key-rotate"),
    ("tenants", TenantsView, "tenants"),
    (TENANT, TenantView, "tenant"),
    (f"{TENANT}/policy", PolicyView, "tenant-policy"),
    (f"{TENANT}/billing", BillingView, "tenant-billing"),
    (f"{TENANT}/identities", TenantIdentitiesView, "tenant-identities"),
    (f"{TENANT}/messages/resolve", ResolveManyView, "messages-resolve"),
    (f"{TENANT}/suppressions", SuppressionsView, "suppressions"),
    # a local part may hold a slash
    (f"{TENANT}/suppressions/<path:address>", SuppressionView, "suppression"),
    (f"{TENANT}/lists/<str:direction>/<str:kind>", SendListView, "list"),
    (
        f"{TENANT}/lists/<str:direction>/<str:kind>/<path:entry>",
        SendListEntryView,
        "list-entry",
    ),
    (f"{TENANT}/webhooks", TenantWebhooksView, "tenant-webhooks"),
    ("webhooks", WebhooksView, "webhooks"),
    (WEBHOOK, WebhookView, "webhook"),
    (f"{WEBHOOK}/rotate-secret", RotateSecretView, "webhook-rotate-secret"),
    (f"{WEBHOOK}/test", WebhookTestView, "webhook-test"),
    (f"{WEBHOOK}/replay", ReplayView, "webhook-replay"),
    (f"{WEBHOOK}/deliveries", DeliveriesView, "webhook-deliveries"),
    ("identities", IdentitiesView, "identities"),
    ("identities/lookup", LookupView, "identity-lookup"),
    (IDENTITY, IdentityView, "identity"),
    (f"{IDENTITY}/addresses", AddressesView, "addresses"),
    (f"{IDENTITY}/addresses/<str:address_id>", AddressView, "address"),
    (f"{IDENTITY}/addresses/<str:address_id>/promote", PromoteView, "address-promote"),
    (f"{IDENTITY}/addresses/<str:address_id>/retire", RetireView, "address-retire"),
    (f"{IDENTITY}/threads", ThreadsView, "threads"),
    (f"{IDENTITY}/threads/<str:thread_id>", ThreadView, "thread"),
    (f"{IDENTITY}/messages", MessagesView, "messages"),
    (MESSAGE, MessageView, "message"),
    (f"{MESSAGE}/reply", ReplyView, "message-reply"),
    (f"{MESSAGE}/reply-all", ReplyAllView, "message-reply-all"),
    (f"{MESSAGE}/forward", ForwardView, "message-forward"),
    (f"{MESSAGE}/cancel", CancelView, "message-cancel"),
    (f"{MESSAGE}/resolve", ResolveView, "message-resolve"),
    (f"{MESSAGE}/attempts", AttemptsView, "message-attempts"),
    (f"{MESSAGE}/raw", RawView, "message-raw"),
    (
        f"{MESSAGE}/attachments/<str:attachment_id>",
        AttachmentView,
        "message-attachment",
    ),
    ("usage", UsageView, "usage"),
    ("usage/daily", DailyUsageView, "usage-daily"),
    ("audit-events", AuditEventsView, "audit-events"),
    ("events", EventsView, "events"),
    ("platform/keys/<str:purpose>/rotate", RotateSigningKeyView, "signing-key-rotate"),
)
"""Every route of ``/v1`` that takes a key: its path, its view and its name."""

v1: list[URLPattern] = [
    path(route, view.as_view(), name=name) for route, view, name in ROUTES
]

admin.autodiscover()

urlpatterns: list[URLPattern | URLResolver] = [
    path("health", HealthView.as_view(), name="health"),
    path("openapi.json", OpenApiView.as_view(), name="openapi"),
    path("docs", reference, name="reference"),
    path("v1/plans", PlansView.as_view(), name="plans"),
    path("v1/links/<str:token>", LinkView.as_view(), name="link"),  # its MAC is the key
    path("hooks/ses", SesHookView.as_view(), name="ses-hook"),  # SNS signs
    path("v1/", include(v1)),
    path("admin/", include("staff.urls")),
    path("", include("pylota.front")),
    path("local/", include("pylota.catcher.views")),  # 404 but in the local environment
]

handler400 = "pylota.api.errors.bad_request"
handler403 = "pylota.api.errors.permission_denied"
handler404 = "pylota.api.errors.not_found"
handler500 = "pylota.api.errors.server_error"
