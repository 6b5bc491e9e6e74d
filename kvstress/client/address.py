"""Where the server is, and what must be said to be let in, kept apart from everything that is shown.

People paste URLs with `/v1` or without, with a slash at the end, with a password in front. All that is settled here,
once; from then on the secret parts exist only in request headers, and `hide` takes them out of any text that a
server may have echoed.
"""

import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import httpx

from kvstress.core.errors import UsageError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET = re.compile(r"auth|key|token|secret|cookie|passw", re.IGNORECASE)
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`root` is the server's URL without `/v1`; `shown` is what the person gave, without user information."""

    root: str
    shown: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def url(self, path: str) -> str:
        """The URL of `path` on the server, such as /v1/models or /metrics."""
        return f"{self.root}/{path.lstrip('/')}"

    def hide(self, text: str) -> str:
        """`text` without any secret of this address."""
        for secret in self.secrets:
            text = text.replace(secret, "<hidden>")
        return text


def address(base_url: str, headers: Mapping[str, str]) -> Address:
    """Raises UsageError when `base_url` is no http(s) URL or a header cannot be sent."""
    url = _parsed(base_url)
    shown = str(url.copy_with(userinfo=b"")).rstrip("/")
    sent = _sendable(headers)
    secrets = [value for name, value in sent.items() if _SECRET.search(name)]
    if url.username or url.password:
        pair = b64encode(f"{url.username}:{url.password}".encode()).decode()
        if "authorization" not in map(str.lower, sent):
            sent["Authorization"] = f"Basic {pair}"
        secrets += [pair, url.password]
    # The longest first: a secret may hold another one.
    words = sorted({part for secret in secrets for part in (secret, *secret.split())}, key=len, reverse=True)
    hidden = tuple(word for word in words if len(word) >= _SHORTEST_SECRET and word.lower() not in ("bearer", "basic"))
    return Address(root=shown.removesuffix("/v1"), shown=shown, headers=sent, secrets=hidden)


def _parsed(base_url: str) -> httpx.URL:
    # A message never repeats the URL as given: it may hold a password.
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as why:
        raise UsageError(f"the server's URL cannot be read ({why}): write it as http://host:port") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError("the server's URL must begin with http:// or https:// and name a host, as in http://host:port")
    if url.port is not None and not 0 < url.port < 65536:
        raise UsageError(f"the server's URL names port {url.port}; ports go from 1 to 65535")
    if url.query or url.fragment:
        raise UsageError(
            f"the server's URL must end with its path, without ? or #: {url.scheme}://{url.host}{url.path}"
        )
    return url


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of an HTTP header")
        if not value.isascii() or any(ord(character) < 32 and character != "\t" for character in value):
            raise UsageError(f"the value of the header {name} holds characters that HTTP does not allow")
    return {name: value.strip() for name, value in headers.items()}


def trusted(url: str, ca_file: Path | None, *, trust_env: bool) -> ssl.SSLContext | None:
    """Whom to trust when calling `url`; None for plain HTTP. Raises UsageError when `ca_file` cannot be used."""
    if not url.startswith("https:"):
        return None
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=trust_env)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as why:
        raise UsageError(f"the certificates in {ca_file} cannot be read: {why}") from why


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for `url`, if any."""
    parsed = httpx.URL(url)
    if proxy_bypass(parsed.host):
        return None
    proxies = getproxies()
    return proxies.get(parsed.scheme) or proxies.get("all")
