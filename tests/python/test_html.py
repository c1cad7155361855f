"""Notebooks show objects as small, escaped HTML tables without scripts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph._common.html import grid, table
from tfhe_rig import parameters as tfhe_parameters


class Cells(HTMLParser):
    """Parses the tags and the texts of the cells of a table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Collects the tags and their attributes."""
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Collects the texts."""
        self.texts.append(data)


def exact() -> dict[str, Any]:
    """Returns BFV objects."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))
    keys = secret.evaluation_keys(rotations=range(1, 12))
    server = hg.Server(keys, limit=1 << 20)
    x = server.bind(secret.encrypt([1, 2], pad=True))

    def named(x: Any) -> Any:
        return x * x

    named.__name__ = "<script>alert(1)</script>"
    made = (secret, secret.public_key(), keys, server, x, x * x, secret.parameters, hg.program(named, x))
    return dict(zip(("secret", "public", "keys", "server", "tensor", "product", "parameters", "program"), made, strict=True))


def numbers() -> dict[str, Any]:
    """Returns CKKS objects."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20))
    keys = secret.evaluation_keys()
    x = hg.Server(keys).bind(secret.encrypt([1.0], pad=True))
    plain = hg.ckks.encode(secret.parameters, [1.0])
    return {"secret": secret, "keys": keys, "tensor": x, "parameters": secret.parameters, "plaintext": plain}


def integers() -> dict[str, Any]:
    """Returns TFHE objects."""
    secret = hg.SecretKey.generate(tfhe_parameters("digits"))
    keys = secret.evaluation_keys()
    x = hg.Server(keys).bind(secret.encrypt(np.array([1, 2], dtype=np.uint8)))
    clear = hg.tfhe.trivial(keys, [1], np.uint8)
    return {"secret": secret, "keys": keys, "tensor": x, "clear": clear, "parameters": secret.parameters}


@pytest.mark.parametrize("made", [exact, numbers, integers])
def test_tables_of_every_kind(made: Any) -> None:
    """A table has a title, labels and texts. A table of a result has no other tags than those of HTML tables, and no
    attributes.
    """
    for shown in made().values():
        text = shown._repr_html_()
        cells = Cells(text)
        assert cells.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert cells.attributes == []
        assert len(cells.texts) >= 3
        assert len(text) < 3000


def test_texts_of_tables() -> None:
    """Tables have the numbers of the objects, shorten long lists, and show names from files as text."""
    bfv, ckks, tfhe = exact(), numbers(), integers()
    said = {name: Cells(shown._repr_html_()).texts for name, shown in bfv.items()}
    assert said["tensor"][:3] == ["BFV tensor", "shape", "()"]
    assert f"{bfv['product'].noise_budget:.1f} bits" in said["product"]
    assert said["product"][said["product"].index("degree") + 1] == "2"
    assert "1, 2, 3, 4, 5, 6, 7, 8, ... (11 in all)" in said["keys"]
    assert "1.0 MiB" in said["server"]
    assert said["secret"] == ["BFV secret key", "key", bfv["secret"].id[:8], "parameters", repr(bfv["secret"].parameters)]
    assert "<script>alert(1)</script>" in said["program"]
    assert "N = 4,096" in said["parameters"]
    told = Cells(ckks["tensor"]._repr_html_()).texts
    assert told[0] == "CKKS tensor"
    assert f"{ckks['tensor'].precision:.1f} bits" in told
    assert Cells(tfhe["tensor"]._repr_html_()).texts[:5] == ["TFHE tensor", "shape", "(2,)", "dtype", "uint8"]
    assert "none: clear values" in Cells(tfhe["clear"]._repr_html_()).texts


def test_texts_are_escaped() -> None:
    """Labels, titles and cells are escaped, including terminal control characters."""
    for text in (table("<b>", [("<i>", "a&b\x1b[2J")]), grid("<b>", ["<i>"], [["a&b\x1b[2J"]])):
        cells = Cells(text)
        assert "b" not in cells.tags
        assert "i" not in cells.tags
        assert cells.texts == ["<b>", "<i>", "a&b\\x1b[2J"]
