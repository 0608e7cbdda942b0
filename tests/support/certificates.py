"""Certificates for servers on this machine: an authority of our own, made once."""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

LOCAL_NAMES = ("localhost", "relay.test", "127.0.0.1")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass(frozen=True)
class Authority:
    """One certificate authority: signs, and says whom to trust (``pem``)."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """Return what a client must trust."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def server_context(
        self, *names: str, days: int = 1, started: timedelta = timedelta(hours=1)
    ) -> ssl.SSLContext:
        """Return a server's context with a certificate for these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        before = datetime.now(UTC) - started
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(names[0]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(before)
            .not_valid_after(before + timedelta(days=days))
            .add_extension(
                x509.SubjectAlternativeName([_alternative(n) for n in names]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self.key.public_key()
                ),
                critical=False,
            )
        )
        return _context(key, builder.sign(self.key, SHA256()))


def _context(
    key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with tempfile.TemporaryDirectory() as folder:  # ssl reads a chain from files only
        path = Path(folder) / "chain.pem"
        path.write_bytes(pem + certificate.public_bytes(Encoding.PEM))
        context.load_cert_chain(path)
    return context


def make_authority(name: str = "Test authority") -> Authority:
    """Return a new authority, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .sign(key, SHA256())
    )
    return Authority(key, certificate)


@cache
def authority() -> Authority:
    """Return the authority of this test run: the one that relays under test trust."""
    return make_authority()


@cache
def good_context() -> ssl.SSLContext:
    """Return a server's context that a client of ``authority()`` accepts."""
    return authority().server_context(*LOCAL_NAMES)


@cache
def bad_context(kind: str) -> ssl.SSLContext:
    """Return a context to refuse: ``self_signed``, ``other_name`` or ``expired``."""
    match kind:
        case "self_signed":
            return make_authority("Nobody").server_context(*LOCAL_NAMES)
        case "other_name":
            other = str(IPv4Address("127.0.0.2"))
            return authority().server_context("other.test", other)
        case "expired":
            return authority().server_context(*LOCAL_NAMES, started=timedelta(days=3))
    raise ValueError(kind)
