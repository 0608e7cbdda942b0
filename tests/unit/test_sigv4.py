"""The signer that SES calls are signed by, against AWS's published test vectors.

The names are those of the Signature Version 4 test suite: 2015-08-30, us-east-1, a
service called ``service``, and the example key of AWS's documents.
"""

from dataclasses import dataclass, field

import pytest
import time_machine
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY_ID = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@dataclass(frozen=True, slots=True)
class Vector:
    """One request of the suite, and the end of its ``Authorization``."""

    signature: str
    signed: str = "host;x-amz-date"
    method: str = "GET"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


FORM = "application/x-www-form-urlencoded"
VECTORS = {
    "get-vanilla": Vector(
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    ),
    "get-vanilla-query-order-key-case": Vector(
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        path="/?Param2=value2&Param1=value1",
    ),
    "post-vanilla": Vector(
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        method="POST",
    ),
    "post-x-www-form-urlencoded": Vector(
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        signed="content-type;host;x-amz-date",
        method="POST",
        headers={"Content-Type": FORM},
        body=b"Param1=value1",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_botocore_signs_as_aws_publishes(name: str) -> None:
    vector = VECTORS[name]
    request = AWSRequest(
        method=vector.method,
        url=f"https://example.amazonaws.com{vector.path}",
        headers=dict(vector.headers),
        data=vector.body,
    )

    with time_machine.travel("2015-08-30T12:36:00+00:00", tick=False):
        signer = SigV4Auth(Credentials(KEY_ID, SECRET), "service", "us-east-1")
        signer.add_auth(request)

    assert request.headers["X-Amz-Date"] == "20150830T123600Z"
    assert request.headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20150830/us-east-1/service/aws4_request,"
        f" SignedHeaders={vector.signed}, Signature={vector.signature}"
    )
