"""Show a web page with a box for questions, on this machine only (docs/sentences.md).

    python page.py --tokenizer tokenizer.json

The browser sends a question to this process, which encrypts it, asks the service and decrypts the answer. The options are those
of client.py.
"""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from search import Search

import heliograph as hg
from sentences import access_of, client_options, report

HTML = Path(__file__).with_name("page.html")


def server_of(search: Search, port: int, count: int = 3, truncate: bool = False) -> ThreadingHTTPServer:
    """Return the HTTP server of the page at 127.0.0.1. Raises OSError if the port is in use."""

    def answer(content: Any) -> dict[str, Any]:
        if not isinstance(content, dict) or not isinstance(content.get("question"), str):
            raise hg.ParameterError('a question must be a JSON object {"question": text}')
        return search.ask(content["question"], count, truncate=truncate)

    def service() -> dict[str, Any]:
        model = search.embedding.model
        return {"address": search.address, "passages": len(search.texts.table), "tokens": model.inputs[0].shape[-1]}

    html = HTML.read_text(encoding="utf-8")
    return hg.serving.local_page(html, {"/ask": answer}, facts={"/service": service}, port=port)


def main() -> int:
    """Serve the page until Ctrl-C. Return the exit status."""
    parser = client_options(__doc__)
    parser.add_argument("--page-port", type=int, default=8757, help="port of the page at 127.0.0.1; default: 8757")
    given = parser.parse_args()
    try:
        search = Search(given.service, given.tokenizer, given.keys, **access_of(given))
        with server_of(search, given.page_port, given.count, given.truncate) as server:
            print(f"the page is at http://127.0.0.1:{server.server_port}/", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        return 0
    except (hg.HeliographError, OSError) as error:
        report(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
