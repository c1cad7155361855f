"""Web pages and their Content Security Policy, which allows only the pages' own scripts and styles."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page's bytes and HTTP headers."""

    body: bytes
    headers: dict[str, str]


def text_of(name: str) -> str:
    """Reads the text of a page of the folder `pages`. Raises OSError."""
    return (Path(__file__).parent / "pages" / f"{name}.html").read_text(encoding="utf-8")


def read(name: str, *asks: str) -> Page:
    """Reads a page of the folder `pages`, as `page_of` does. Raises OSError."""
    return page_of(text_of(name), *asks)


def page_of(text: str, *asks: str) -> Page:
    """Returns the page of a text. The page's script may connect to the page's own origin and to the origins `asks`.

    The policy identifies script and style by their SHA-256 (W3C, Content Security Policy Level 3), so injected scripts do
    not run.
    """
    digests: dict[str, str] = {}
    for kind, inline in _INLINE.findall(text):
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        digests[kind] = f"{digests.get(kind, '')} 'sha256-{digest}'"
    rules = [
        "default-src 'none'",
        *(f"{kind}-src{digests[kind]}" for kind in ("script", "style") if kind in digests),
        "img-src data:",
        " ".join(("connect-src 'self'", *asks)),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    headers = {
        "Content-Security-Policy": "; ".join(rules),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Page(text.encode(), headers)
