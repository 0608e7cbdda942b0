"""``POST /hooks/ses``: what SES says of deliveries, brought by SNS."""

from typing import Final

import structlog
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from core import metrics
from core.bodies import JSON, read_body
from core.described import described
from core.errors import InternalError, PylotaError
from core.schemas import refusals
from core.views import ApiView
from delivery.api.schemas import SnsPosted
from delivery.errors import InvalidSignature
from delivery.ses_hook import take
from delivery.sns import Refused

LARGEST: Final = 2**20
"""Bytes of a body: SNS carries 256 KiB, which its JSON may write twice as long."""
MEDIA_TYPES: Final = ("text/plain", JSON)
TYPE_HEADER: Final = "HTTP_X_AMZ_SNS_MESSAGE_TYPE"

log = structlog.get_logger()


class SesHookView(ApiView):
    """Takes no key: what SNS has signed for the configured topic is let in."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @described(
        operation_id="takeSesEvent",
        tags=["hooks"],
        auth=[],
        request=SnsPosted,
        responses={
            200: OpenApiResponse(description="Stored, confirmed, or nothing to do."),
            **refusals(
                {
                    400: "`invalid_request`: cut short, or of another media type.",
                    403: "`invalid_signature`: not signed by SNS for our topic.",
                    411: "`length_required`: send Content-Length.",
                    413: "`payload_too_large`: the body is over 1 MiB.",
                    500: "`internal_error`: SNS tries again.",
                }
            ),
        },
    )
    def post(self, request: Request) -> Response:
        """Take a message of SNS about mail that left by SES.

        SNS sends it as `text/plain`. Whatever fails on our side is a 500, because SNS
        repeats only that and a 429.
        """
        body = read_body(request._request, limit=LARGEST, media_types=MEDIA_TYPES)
        try:
            take(body, announced_type=request.META.get(TYPE_HEADER))
        except Refused as refused:
            metrics.SES_SNS_REJECTED.labels(str(refused.reason)).inc()
            log.warning("sns_rejected", code=str(refused.reason))
            raise InvalidSignature("SNS did not sign this for our topic.") from None
        except PylotaError:
            raise
        except Exception as error:
            log.error("hook_failed", exc_info=error)
            raise InternalError("Something went wrong on our side.") from error
        return Response(status=200)
