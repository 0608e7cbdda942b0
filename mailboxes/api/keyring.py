"""Turning the signing keys of the deployment."""

from typing import Annotated

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.errors import RouteNotFound
from core.forms import Flag, Nothing, Query
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.api.schemas import RotatedSigningKey
from mailboxes.callers import caller_of
from mailboxes.keyring_services import rotate_key
from mailboxes.services import audit
from mailboxes.statuses import KeyPurpose


class RotateQuery(Query):
    """Whether the key before goes on verifying for a while."""

    revoke_previous: Annotated[
        Flag,
        Field(description="Drop the key before at once: after a leak."),
    ] = False


class RotateSigningKeyView(ApiView):
    """The ring of one purpose."""

    @described(
        operation_id="rotateSigningKey",
        tags=["platform"],
        request=None,
        parameters=[KEY_HEADER, *RotateQuery.parameters()],
        responses={
            200: RotatedSigningKey,
            **refusals(
                {
                    404: "`route_not_found`: no such ring.",
                    503: "`unavailable`: no name is left for a new key.",
                }
            ),
        },
    )
    def post(self, request: Request, purpose: str) -> Response:
        """Let a new key sign thread tokens, links or cursors.

        The key before goes on verifying for 90 days, 7 days or 24 hours.
        """
        if purpose not in KeyPurpose.values:
            raise RouteNotFound("The keys that turn are thread, link and cursor.")
        query = RotateQuery.parse(request.query_params)

        def rotate(_: Nothing) -> Answer:
            kid = rotate_key(KeyPurpose(purpose), revoke_previous=query.revoke_previous)
            audit(
                "signing_key.rotate",
                tenant_id=None,
                target_type="signing_key",
                target_id=f"{purpose}:{kid}",
                details={"revoke_previous": query.revoke_previous},
                actor_key_id=caller_of(request).key_id,
            )
            return Answer({"purpose": purpose, "kid": kid}, status=200)

        return answer_once(request, Nothing, rotate)
