"""The client of a service of passages: it encrypts questions and decrypts answers. docs/sentences.md."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import heliograph as hg
from sentences import Tokenizer, require_one_version, rounded, vectors_of


class Search:
    """A client of the three bundles of a service. `access` holds arguments of `hg.Client`, such as `token` and `ca`.

    Raises MismatchError for bundles of different passages or another tokenizer; the errors of `hg.Client`.
    """

    def __init__(self, address: str, tokenizer: Path | str, keys: Path | str, **access: Any) -> None:
        self.address, self.access, self.tokenizer, self.keys = address, access, Tokenizer(tokenizer), Path(keys)
        self._connect()

    def _connect(self) -> None:
        start, self.uploaded = time.perf_counter(), 0
        with hg.Client(self.address, **self.access) as client:
            require_one_version({model["name"]: model["version"] for model in client.models()}, self.tokenizer)
        self.embedding, self.passages = self._party("embedding"), self._party("passages")
        self.texts = hg.Client(self.address, model="texts", **self.access)
        halves = sum(len(one.half.to_bytes()) for one in (self.embedding, self.passages, self.texts))
        #: Seconds of the start, bytes of evaluation keys sent, and bytes of the client's halves received.
        self.start = (time.perf_counter() - start, self.uploaded, halves)

    def _party(self, name: str) -> hg.Client:
        """Return the client of a bundle. Makes the key, and uploads evaluation keys that the service lacks."""
        secret, digest = self.keys / f"{name}.hg", self.keys / f"{name}.uploaded"
        client = hg.Client(self.address, model=name, **self.access)
        if not secret.exists():
            self.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
            hg.SecretKey.generate(client.half.parameters).save(secret)
        key, known = hg.SecretKey.load(secret), digest.read_text() if digest.exists() else ""
        if known in [upload["digest"] for upload in client.uploads()]:
            return hg.Client(self.address, model=name, secret=key, keys=known, **self.access)
        digest.write_text(client.upload_keys(key))
        self.uploaded += client.half.key_bytes
        return client

    def ask(self, question: str, count: int = 3, *, truncate: bool = False) -> dict[str, Any]:
        """Return the nearest passages, best first, with their ids and scores, the number of tokens that were left out, and the
        seconds and bytes (sent, received) of each step.

        Raises ParameterError for an empty question, and for one of too many tokens unless `truncate`; the errors of
        `hg.Client.run`.
        """
        try:
            return self._ask(question, count, truncate)
        except (hg.UnknownKeyError, hg.ExpiredKeyError, hg.EvictedKeyError):
            self._connect()  # uploads the evaluation keys again
            return self._ask(question, count, truncate)

    def _ask(self, question: str, count: int, truncate: bool) -> dict[str, Any]:
        model, layout, table = self.embedding.model, self.passages.half, self.texts.table
        tokens = model.inputs[0].shape[-1]
        samples = self.tokenizer.samples([question], tokens, truncate=truncate)
        start = time.perf_counter()
        values = self.embedding.run({spec.name: samples[spec.name] for spec in model.inputs})
        vectors = rounded(vectors_of(values, samples["attention_mask"], layout.dimension))
        embedded = time.perf_counter()
        found = self.passages.nearest(vectors[0], count)
        searched = time.perf_counter()
        passages = [self.texts.get(number)["text"] for number in found.ids.tolist()]
        sent, received = len(passages) * table.question_bytes, len(passages) * table.answer_bytes
        return {
            "passages": passages,
            "ids": found.ids.tolist(),
            "scores": found.scores.tolist(),
            "left_out": max(0, self.tokenizer.count(question) - tokens),
            "steps": {
                "embedding": (embedded - start, model.input_bytes, model.output_bytes),
                "search": (searched - embedded, layout.query_bytes, layout.answer_bytes),
                "look-ups": (time.perf_counter() - searched, sent, received),
            },
        }
