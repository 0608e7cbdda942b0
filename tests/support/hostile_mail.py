"""Malformed mail: what has broken other readers, each with a name."""

from typing import Final

_HEAD = b"From: a@example.net\r\nTo: b@example.net\r\nSubject: x\r\n"


def _nested(levels: int) -> bytes:
    opened = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n)
        for n in range(levels)
    )
    return _HEAD + opened + b"Content-Type: text/plain\r\n\r\ndeep\r\n"


def _parts(count: int) -> bytes:
    part = b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n"
    head = _HEAD + b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
    return head + part * count + b"--b--\r\n"


def _with(*fields: bytes, body: bytes = b"hello\r\n") -> bytes:
    return _HEAD + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body


HOSTILE: Final[dict[str, bytes]] = {
    "nothing": b"",
    "one octet": b"\x00",
    "blank lines": b"\r\n\r\n\r\n",
    "no header": b"hello",
    "bare line feeds": b"Subject: x\nFrom: a@example.net\n\nhello\n",
    "bare carriage returns": b"Subject: x\rFrom: a@example.net\r\rhello\r",
    "a header without an end": b"Subject: " + b"x" * 200_000,
    "a colon alone": b": \r\n:\r\n\r\nhello",
    "controls and NUL": b"Subject: a\x00b\x07c\r\nFrom: \x00@\x00\r\n\r\n\x00\x01\x02",
    "octets in headers": b"Subject: \xff\xfe\xe9\r\nFrom: \xe9 <\xe9@\xe9>\r\n\r\n\xff",
    "thousands of fields": b"X-A: b\r\n" * 20_000 + b"\r\nhello",
    "forty levels": _nested(40),
    "a thousand levels": _nested(1000),
    "nested messages": _HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 600 + b"deep",
    "a thousand parts": _parts(1000),
    "no boundary": _with(b"Content-Type: multipart/mixed"),
    "an empty boundary": _with(b'Content-Type: multipart/mixed; boundary=""'),
    "a boundary that never comes": _with(b"Content-Type: multipart/mixed; boundary=b"),
    "a part that never ends": _with(
        b"Content-Type: multipart/mixed; boundary=b",
        body=b"--b\r\nContent-Type: text/plain\r\n\r\nhello",
    ),
    "a broken content type": _with(b"Content-Type: ;;;=;/;"),
    "an empty content type": _with(b"Content-Type:"),
    "two content types": _with(b"Content-Type: text/html", b"Content-Type: a/b"),
    "an unknown charset": _with(b"Content-Type: text/plain; charset=klingon"),
    "a codec for a charset": _with(b"Content-Type: text/plain; charset=rot13"),
    "a slow codec": _with(
        b"Content-Type: text/plain; charset=punycode", body=b"a-" * 500_000
    ),
    "surrogates by codec": _with(
        b"Content-Type: text/plain; charset=unicode_escape", body=rb"\ud800\udc00\ud800"
    ),
    "surrogates by UTF-7": _with(
        b"Content-Type: text/plain; charset=utf-7", body=b"+2AA-+3AA-"
    ),
    "a charset in two sections": _with(
        b"Content-Type: text/plain; charset*=x'y'%ff%00"
    ),
    "broken base64": _with(b"Content-Transfer-Encoding: base64", body=b"=a=b=c!!"),
    "broken quoted-printable": _with(
        b"Content-Transfer-Encoding: quoted-printable", body=b"=\r\n=ZZ=4=="
    ),
    "broken uuencode": _with(
        b"Content-Transfer-Encoding: x-uuencode", body=b"begin 666 ../x\r\nzzz\r\n"
    ),
    "an unknown encoding": _with(b"Content-Transfer-Encoding: rot13"),
    "a path for a name": _with(
        b"Content-Disposition: attachment; filename=../../etc/passwd"
    ),
    "an empty name": _with(b'Content-Disposition: attachment; filename=""'),
    "an odd name": _with(b"Content-Disposition: attachment; filename*0*=x'y'%; a*9=z"),
    "a broken disposition": _with(b"Content-Disposition: ;;;"),
    "nested comments": _with(b"To: " + b"(" * 30_000, b"Cc: " + b'"' * 30_001),
    "many addresses": _with(b"Cc: " + b", ".join([b"a@example.net"] * 3000)),
    "a group": _with(b"Cc: undisclosed-recipients:;", b"Reply-To: a:b@c,<,>;,,,@"),
    "an encoded name that breaks out": _with(
        b"From: =?utf-8?q?a=0D=0ABcc:_x=40y?= <a@example.net>"
    ),
    "encoded words of odd kinds": _with(
        b"Subject: =?utf-8?b?=== ?= =?x?q??= =?utf-7?q?+2AA-?= =?a?b?\xff?="
    ),
    "dates of no calendar": _with(b"Date: Mon, 99 Foo 99999 99:99:99 +9999999999"),
    "an empty date": _with(b"Date:"),
    "ids that are none": _with(
        b"Message-ID: <<<>>>", b"In-Reply-To: " + b"<" * 9999, b"References: <@> @"
    ),
    "thousands of references": _with(b"References: " + b"<a@b>\r\n " * 9000),
    "a hop of many digits": _with(b"X-Pylota-Mail-Hop: " + b"9" * 9999),
    "a report of nothing": _with(
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b",
        body=b"--b\r\nContent-Type: message/delivery-status\r\n\r\n\xff\r\n\r\n--b--",
    ),
    "an external body": _with(b"Content-Type: message/external-body; access-type=x"),
    "a partial message": _with(b"Content-Type: message/partial; number=9; id=x"),
    "html without an end": _with(b"Content-Type: text/html", body=b"<div>" * 5000),
}
