"""The shapes that hooks take, for the description."""

from typing import Any, ClassVar, Literal

from core.schemas import Shape


class SnsPosted(Shape):
    """A message of Amazon SNS, as it posts them; fields that are not named may come."""

    example: ClassVar[dict[str, Any]] = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:pylota-mail",
        "Message": '{"eventType":"Delivery","mail":{},"delivery":{}}',
        "Timestamp": "2026-10-09T08:30:00.000Z",
        "SignatureVersion": "2",
        "Signature": "c2lnbmVk",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/certificate.pem",
    }

    Type: Literal["Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation"]
    MessageId: str
    TopicArn: str
    Message: str
    Timestamp: str
    SignatureVersion: Literal["2"]
    Signature: str
    SigningCertURL: str
    Subject: str | None = None
