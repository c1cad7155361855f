"""The client of a service of passages: it encrypts questions and decrypts answers. docs/sentences.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import heliograph as hg
from sentences import Tokenizer, require_one_version, rounded, vectors_of


class Search:
    """A client of the three bundles of a service. `access` holds arguments of `hg.Client`, such as `token` and `ca`. `report` is
    called with a line of text before keys are made and uploaded.

    Raises MismatchError for bundles of different passages or another tokenizer; the errors of `hg.Client`.
    """

    def __init__(
        self,
        address: str,
        tokenizer: Path | str,
        keys: Path | str,
        *,
        report: Callable[[str], None] = lambda line: None,
        **access: Any,
    ) -> None:
        self._report = report
        self.address, self.access, self.tokenizer, self.keys = address, access, Tokenizer(tokenizer), Path(keys)
        self._connect()

    def _connect(self) -> None:
        start, self._sent = time.perf_counter(), 0
        with hg.Client(self.address, **self.access) as client:
            models = {model["name"]: model for model in client.models()}
            require_one_version({name: model["version"] for name, model in models.items()}, self.tokenizer)
            stored = {upload["digest"] for upload in client.uploads()}
        self.embedding, self.passages = (self._party(models[name], stored) for name in ("embedding", "passages"))
        self.texts = hg.Client(self.address, model="texts", **self.access)
        self.secret = hg.SecretKey.load(self.keys / "embedding.hg")
        halves = sum(len(one.half.to_bytes()) for one in (self.embedding, self.passages, self.texts))
        #: Seconds of the start, bytes of evaluation keys sent, and bytes of the client's halves received.
        self.start = (time.perf_counter() - start, self._sent, halves)

    def _party(self, model: dict[str, Any], stored: set[str]) -> hg.Client:
        """Return the client of a bundle. Makes the secret key if there is none, and uploads evaluation keys unless those for
        this bundle are in `stored`."""
        name, file = model["name"], self.keys / f"{model['name']}.hg"
        uploaded = file.with_suffix(".uploaded")  # digests of the bundle and of its evaluation keys
        bundle, _, keys = (uploaded.read_text() if uploaded.exists() else "").partition(" ")
        if bundle == model["digest"] and keys in stored:
            return hg.Client(self.address, model=name, secret=hg.SecretKey.load(file), keys=keys, **self.access)
        client = hg.Client(self.address, model=name, **self.access)
        if not file.exists():
            self.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
            hg.SecretKey.generate(client.half.parameters).save(file)
        secret = hg.SecretKey.load(file)
        if secret.parameters != client.half.parameters:
            raise hg.MismatchError(f"{file} is a key of other parameters than the bundle {name}; use a new folder of keys")
        self._report(f"making and uploading keys for {name}, once: about {client.half.key_bytes / 1e6:,.0f} MB")
        uploaded.write_text(f"{model['digest']} {client.upload_keys(secret)}")
        self._sent += client.half.key_bytes
        return client

    def ask(self, question: str, count: int = 3, *, truncate: bool = False) -> dict[str, Any]:
        """Return the nearest passages, best first, with their ids and scores, the number of tokens that were left out, and the
        seconds and bytes (sent, received) of each step.

        Raises ParameterError for a `count` below 1, an empty question, and one of too many tokens unless `truncate`; the
        errors of `hg.Client.run`.
        """
        try:
            return self._ask(question, count, truncate)
        except (hg.UnknownKeyError, hg.ExpiredKeyError, hg.EvictedKeyError):
            self._connect()  # uploads the evaluation keys again
            return self._ask(question, count, truncate)

    def _ask(self, question: str, count: int, truncate: bool) -> dict[str, Any]:
        if count < 1:
            raise hg.ParameterError(f"the number of passages must be at least 1, got {count}")
        model, layout, table = self.embedding.model, self.passages.half, self.texts.table
        tokens = model.inputs[0].shape[-1]
        samples = self.tokenizer.samples([question], tokens, truncate=truncate)
        start = time.perf_counter()
        inputs = {spec.name: samples[spec.name] for spec in model.inputs}
        request = model.encrypt(self.secret, inputs)
        answer = self.embedding.run(request)  # ciphertexts in both directions
        values = model.decrypt(self.secret, answer, like=inputs)
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
                "embedding": (embedded - start, len(request.to_bytes()), len(answer.to_bytes())),
                "search": (searched - embedded, layout.query_bytes, layout.answer_bytes),
                "look-ups": (time.perf_counter() - searched, sent, received),
            },
        }
