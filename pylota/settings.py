"""Every setting, read from the environment and grouped by concern.

``.env.example`` lists each variable with a line of explanation. A missing or malformed
value stops the start and names itself.
"""

import os
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from django.urls import reverse_lazy

from core.sealing import sealer_of
from domains.relay import parse_relay_url
from mailboxes import policy
from pylota import VERSION, env, logs
from pylota.api.answer_headers import HEADERS
from pylota.embedded.defaults import default_data_dir
from pylota.local import local_secrets

ROOT = Path(__file__).resolve().parent.parent
TESTING = "pytest" in sys.modules

# --- where and how this deployment runs ----------------------------------------------

PM_ENV = env.choice(
    "PM_ENV", "local" if TESTING else "production", ("production", "staging", "local")
)
LOCAL = PM_ENV == "local"
PM_DATA_DIR = env.folder("PM_DATA_DIR", default_data_dir())
if TESTING:  # a folder for each process of a test run: some tests break theirs
    PM_DATA_DIR = PM_DATA_DIR / "tests" / os.environ.get("PYTEST_XDIST_WORKER", "one")
PM_LOG_LEVEL = env.choice("PM_LOG_LEVEL", "info", ("debug", "info", "warning", "error"))
PM_API_HOST = env.checked(
    "PM_API_HOST",
    *(("127.0.0.1",) if LOCAL else ()),
    check=partial(env.host_name, with_port=LOCAL),
)
PM_PLATFORM_DOMAIN = env.checked(
    "PM_PLATFORM_DOMAIN",
    *(("agents.test",) if LOCAL else ()),
    check=env.domain_name,
)
PM_PLATFORM_TRANSPORT = env.choice(
    "PM_PLATFORM_TRANSPORT",
    "smtp" if LOCAL else "cloudflare",
    ("cloudflare", "ses", "smtp"),
)
PM_PLATFORM_RELAY_URL = env.checked(
    "PM_PLATFORM_RELAY_URL",
    *(("",) if LOCAL or PM_PLATFORM_TRANSPORT != "smtp" else ()),
    check=partial(parse_relay_url, is_local=LOCAL),
)
PM_DEFAULT_POLICY = env.json_object("PM_DEFAULT_POLICY", check=policy.check)
PM_IDEMPOTENCY_DAYS = env.integer("PM_IDEMPOTENCY_DAYS", 30)
PM_BILLING = env.choice("PM_BILLING", "off", ("off", "stripe"))
PM_DAILY_SEND_QUOTA = env.integer("PM_DAILY_SEND_QUOTA", 0)
PM_PLAN_CATALOG = env.text("PM_PLAN_CATALOG", "")  # a mistake in it stops no mail
PM_BILLING_GRACE_DAYS = env.integer("PM_BILLING_GRACE_DAYS", 7, most=3650)
PM_UPGRADE_URL = env.checked(
    "PM_UPGRADE_URL", "", check=partial(env.service_url, schemes=("https", "http"))
)

# --- rate limits, a minute; 0 limits nothing -----------------------------------------

PM_RATE_PER_KEY = env.integer("PM_RATE_PER_KEY", 600)
PM_RATE_PER_TENANT = env.integer("PM_RATE_PER_TENANT", 1800)
PM_RATE_SENDS = env.integer("PM_RATE_SENDS", 120)
PM_REDIS_URL = env.checked(
    "PM_REDIS_URL", "", check=partial(env.service_url, schemes=("redis", "rediss"))
)

# --- secrets -------------------------------------------------------------------------

_generated = local_secrets(PM_DATA_DIR) if LOCAL else {}


def _secret(name: str) -> bytes:
    return env.secret(name, *((_generated[name],) if LOCAL else ()))


PM_KEY_PEPPER = _secret("PM_KEY_PEPPER")
PM_HASH_KEY = _secret("PM_HASH_KEY")
PM_MASTER_KEY = _secret("PM_MASTER_KEY")
PM_MASTER_KEY_B = env.secret("PM_MASTER_KEY_B", b"")
PM_MASTER_KEY_ACTIVE = env.choice("PM_MASTER_KEY_ACTIVE", "a", ("a", "b"))
sealer_of(PM_MASTER_KEY, PM_MASTER_KEY_B, PM_MASTER_KEY_ACTIVE)  # or the start ends
PM_DJANGO_SECRET = _secret("PM_DJANGO_SECRET")
env.distinct(
    PM_KEY_PEPPER=PM_KEY_PEPPER,
    PM_HASH_KEY=PM_HASH_KEY,
    PM_MASTER_KEY=PM_MASTER_KEY,
    PM_MASTER_KEY_B=PM_MASTER_KEY_B,
    PM_DJANGO_SECRET=PM_DJANGO_SECRET,
)
SECRET_KEY = PM_DJANGO_SECRET.hex()

# --- claims, alarms, back-off --------------------------------------------------------

PM_CLAIM_SECONDS = env.seconds("PM_CLAIM_SECONDS", 300, least=1)
PM_ALARM_SECONDS = env.seconds("PM_ALARM_SECONDS", 15, least=0.1)
PM_REDISPATCH_SECONDS = env.seconds("PM_REDISPATCH_SECONDS", 300, least=1)
PM_RING_AHEAD = env.integer("PM_RING_AHEAD", 1000, least=1)
PM_BACKOFF_SCALE = env.seconds("PM_BACKOFF_SCALE", 1.0)
if PM_ENV == "production" and PM_BACKOFF_SCALE != 1:
    raise ImproperlyConfigured("config_invalid: PM_BACKOFF_SCALE is 1 in production.")
PM_BREAKER_SECONDS = env.seconds("PM_BREAKER_SECONDS", 300)
PM_LOCK_WAITERS = env.integer("PM_LOCK_WAITERS", 0)
PM_LISTEN_DATABASE_URL = env.text("PM_LISTEN_DATABASE_URL", "")

# --- the SMTP transport --------------------------------------------------------------

PM_SMTP_CONNECT_SECONDS = env.seconds("PM_SMTP_CONNECT_SECONDS", 10, least=0.1)
PM_SMTP_COMMAND_SECONDS = env.seconds("PM_SMTP_COMMAND_SECONDS", 30, least=0.1)
PM_SMTP_FINAL_SECONDS = env.seconds("PM_SMTP_FINAL_SECONDS", 60, least=0.1)
PM_SMTP_PARALLEL = env.integer("PM_SMTP_PARALLEL", 4, least=1)
PM_RELAY_CA_FILE = env.checked("PM_RELAY_CA_FILE", "", check=env.pem_file)

# --- Cloudflare ----------------------------------------------------------------------

PM_CF_ACCOUNT_ID = env.checked("PM_CF_ACCOUNT_ID", "", check=env.path_word)
PM_CF_API_TOKEN = env.checked("PM_CF_API_TOKEN", "", check=env.word)
env.together(PM_CF_ACCOUNT_ID=PM_CF_ACCOUNT_ID, PM_CF_API_TOKEN=PM_CF_API_TOKEN)
PM_CF_API_BASE = env.checked(
    "PM_CF_API_BASE",
    "https://api.cloudflare.com/client/v4",
    check=partial(env.service_url, schemes=("https", "http") if LOCAL else ("https",)),
).rstrip("/")
PM_CF_JOURNAL = env.boolean("PM_CF_JOURNAL", False)
PM_CF_QUEUE_ID = env.checked("PM_CF_QUEUE_ID", "", check=env.path_word)
if PM_CF_QUEUE_ID:
    env.together(PM_CF_ACCOUNT_ID=PM_CF_ACCOUNT_ID, PM_CF_QUEUE_ID=PM_CF_QUEUE_ID)

# --- the SES transport ---------------------------------------------------------------

PM_SES_REGION = env.checked("PM_SES_REGION", "", check=env.aws_region)
PM_SES_ACCESS_KEY_ID = env.checked("PM_SES_ACCESS_KEY_ID", "", check=env.word)
PM_SES_SECRET_ACCESS_KEY = env.checked("PM_SES_SECRET_ACCESS_KEY", "", check=env.word)
env.together(
    PM_SES_REGION=PM_SES_REGION,
    PM_SES_ACCESS_KEY_ID=PM_SES_ACCESS_KEY_ID,
    PM_SES_SECRET_ACCESS_KEY=PM_SES_SECRET_ACCESS_KEY,
)
PM_SES_CONFIGURATION_SET = env.checked("PM_SES_CONFIGURATION_SET", "", check=env.word)
PM_SES_ENDPOINT_URL = env.checked(
    "PM_SES_ENDPOINT_URL",
    "",
    check=partial(
        env.service_url,
        schemes=("https",) if PM_ENV == "production" else ("https", "http"),
    ),
)

# --- what SES says of deliveries, by SNS ---------------------------------------------

PM_SES_SNS_TOPIC_ARN = env.checked(
    "PM_SES_SNS_TOPIC_ARN", "", check=partial(env.topic_arn, region=PM_SES_REGION)
)
PM_SNS_CERT_DIR = env.checked("PM_SNS_CERT_DIR", "", check=env.readable_folder)

# --- webhooks ------------------------------------------------------------------------

PM_WEBHOOK_PARALLEL = env.integer("PM_WEBHOOK_PARALLEL", 8, least=1)
USER_AGENT = f"PylotaMail/{VERSION}"

# --- processes -----------------------------------------------------------------------

PM_WEB_WORKERS = env.integer("PM_WEB_WORKERS", 1, least=1)
PM_WEB_THREADS = env.integer("PM_WEB_THREADS", 16, least=1)
PM_WORKERS = env.integer("PM_WORKERS", 1, least=1)
PM_WORKER_THREADS = env.integer("PM_WORKER_THREADS", 16, least=1)

# --- database ------------------------------------------------------------------------

SESSION_OPTIONS = {
    "statement_timeout": "5000",
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "15000",
    "synchronous_commit": "on",
    "jit": "off",
}
DATABASE_URL = env.checked(
    "DATABASE_URL", *(("",) if LOCAL else ()), check=env.postgres_url
)


def database_from(url: str) -> dict[str, object]:
    """Return Django's settings for one PostgreSQL URL, with our session's rules."""
    parsed = dj_database_url.parse(url)
    options = {
        "options": " ".join(f"-c {name}={v}" for name, v in SESSION_OPTIONS.items()),
        "prepare_threshold": 5,
        "connect_timeout": 5,
        "keepalives": 1,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 12000,
        "application_name": "pylota",
    }
    return {
        **parsed,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**options, **parsed.get("OPTIONS", {})},
    }


DATABASES = {"default": database_from(DATABASE_URL or "postgres://app@localhost/app")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- broker --------------------------------------------------------------------------

BROKERS = ("amqp", "amqps", "pyamqp", "redis", "rediss", "memory")
CELERY_BROKER_URL = env.checked(
    "CELERY_BROKER_URL", "memory://", check=partial(env.service_url, schemes=BROKERS)
)

# --- objects -------------------------------------------------------------------------

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "objects": {
        "BACKEND": "core.objects.DurableFileStorage",
        "OPTIONS": {"location": str(PM_DATA_DIR / "objects")},
    },
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage",
    },
}

# --- Django --------------------------------------------------------------------------

DEBUG = False
ALLOWED_HOSTS = [PM_API_HOST.partition(":")[0]]
if LOCAL:  # and no other: a name of somebody's may lead a browser to this machine
    ALLOWED_HOSTS += ["localhost", "127.0.0.1", "[::1]"]
else:  # a proxy ends TLS in front of us (docker/proxy.conf)
    CSRF_TRUSTED_ORIGINS = [f"https://{PM_API_HOST}"]
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
ROOT_URLCONF = "pylota.urls"
WSGI_APPLICATION = "pylota.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # the files come from the packages: nothing to collect
APPEND_SLASH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 7 * 2**20
INSTALLED_APPS = [
    "pylota",
    "outbound",
    "inbound",
    "delivery",
    "quota",
    "suppressions",
    "webhooks",
    "domains",
    "mailboxes",
    "core",
    "unfold",
    # its pages are found by pylota.urls: no worker has to load them
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "axes",
    "drf_spectacular_sidecar",
    "staff.apps.StaffConfig",  # last: its roles hold permissions of all the others
]
MIDDLEWARE = [
    "pylota.api.request_id.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "staff.sessions.EndOfSession",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "staff.content_security.AdminPolicy",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "libraries": {"humanize": "django.contrib.humanize.templatetags.humanize"},
        },
    }
]

UNFOLD = {
    "SITE_TITLE": "Pylota",
    "SITE_HEADER": "Pylota",
    "SITE_URL": None,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_HISTORY": False,
    "DASHBOARD_CALLBACK": "staff.front_page.page.dashboard",
    "LOGIN": {"form": "staff.login.LoginForm"},
    "SIDEBAR": {"navigation": "staff.navigation.navigation"},
    "ACCOUNT": {
        "navigation": [
            {"title": "Second factor", "link": reverse_lazy("second-factor")},
        ]
    },
    "STYLES": [lambda request: static("staff/staff.css")],
    "SCRIPTS": [lambda request: static("staff/staff.js")],
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda request: static("staff/icon.svg"),
        },
    ],
}

# --- logging in to the admin ---------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
SESSION_COOKIE_AGE = 12 * 3600
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_TEMPLATE = "staff/locked_out.html"
AXES_CLIENT_IP_CALLABLE = "staff.login.client_address"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
OTP_TOTP_ISSUER = "Pylota"
OTP_ADMIN_HIDE_SENSITIVE_DATA = True
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'", "'unsafe-eval'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "frame-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'self'"],
    },
}

# --- the API -------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "pylota.api.authentication.KeyAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["pylota.api.access.AccessTable"],
    "DEFAULT_THROTTLE_CLASSES": [
        "pylota.api.throttling.KeyRate",
        "pylota.api.throttling.SendRate",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "pylota.api.rendering.AlwaysJson",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "pylota.api.description.Described",
    "EXCEPTION_HANDLER": "pylota.api.errors.handle",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Pylota",
    "DESCRIPTION": "Outbound mail: one Idempotency-Key, never a second email.",
    "VERSION": VERSION,
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1",
    "SORT_OPERATIONS": True,
    "OAS_VERSION": "3.1.0",
    "APPEND_COMPONENTS": {"headers": HEADERS},
    "TAGS": [
        {"name": "messages", "description": "Send, answer, forward, read, settle."},
        {"name": "threads", "description": "Conversations of an identity."},
        {"name": "identities", "description": "Who sends, and from which addresses."},
        {"name": "suppressions", "description": "Who must not be mailed."},
        {"name": "lists", "description": "A tenant's own allow and block lists."},
        {"name": "events", "description": "What happened, in order."},
        {"name": "keys", "description": "API keys: made, turned, revoked."},
        {"name": "tenants", "description": "Customers, and what each may do."},
        {"name": "billing", "description": "Plans, and what a tenant is on."},
        {"name": "audit", "description": "Who did what, and when."},
        {"name": "platform", "description": "For the operator of the deployment."},
        {"name": "hooks", "description": "For providers, which sign what they post."},
        {"name": "service", "description": "Of this process."},
    ],
}

# --- logs: lines of a closed form, without any content -------------------------------

logs.configure(env=PM_ENV, version=VERSION, level=PM_LOG_LEVEL)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"closed": {"()": "pylota.logs.ClosedFormatter"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "closed"},
    },
    "root": {"handlers": ["stderr"], "level": PM_LOG_LEVEL.upper()},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.server": {"handlers": [], "propagate": False},
        # a 4xx is the caller's business; what breaks is logged by location
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "ERROR"},
        # they tell of every request with its URL, which may name a recipient
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # it tells of every log-in with the account's name
        "axes": {"level": "ERROR"},
    },
}
