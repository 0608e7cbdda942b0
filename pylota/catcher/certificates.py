"""A certificate authority of one's own, and a certificate for loopback."""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID: Final = timedelta(days=800)
RENEW_BEFORE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in one folder: what clients trust, and what the server shows."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """Return the server's side of TLS 1.2 or later."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context


def ensure_certificates(folder: Path) -> Certificates:
    """Return the folder's certificates, made anew when missing or about to end.

    The authority's key is used once and never stored.
    """
    found = Certificates(
        authority=folder / "ca.pem",
        certificate=folder / "server.pem",
        key=folder / "server.key",
    )
    if not _is_usable(found):
        folder.mkdir(parents=True, exist_ok=True)
        _make(found)
    return found


def _is_usable(files: Certificates) -> bool:
    try:
        stored = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    ends_at = stored.not_valid_after_utc
    complete = files.authority.exists() and files.key.exists()
    return complete and ends_at - datetime.now(UTC) > RENEW_BEFORE


def _make(files: Certificates) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("Pylota local authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = [
        x509.DNSName("localhost"),
        *(x509.IPAddress(ip_address(ip)) for ip in ("127.0.0.1", "::1")),
    ]
    server = (
        _certificate(_name("Pylota mail catcher"), authority_name, server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(_server_use(), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                authority_key.public_key()
            ),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    private = server_key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    _write(files.key, private, mode=0o600)
    _write(files.authority, authority.public_bytes(Encoding.PEM), mode=0o644)
    _write(files.certificate, server.public_bytes(Encoding.PEM), mode=0o644)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _server_use() -> x509.ExtendedKeyUsage:
    uses: Sequence[x509.ObjectIdentifier] = [ExtendedKeyUsageOID.SERVER_AUTH]
    return x509.ExtendedKeyUsage(uses)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    partial = path.with_suffix(path.suffix + ".new")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    partial.rename(path)
