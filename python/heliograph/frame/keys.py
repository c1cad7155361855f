"""Keys of encrypted frames: one of CKKS for reals and one of BGV for exact columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from heliograph import _core, bgv, ckks, keys
from heliograph._common.arguments import path_of
from heliograph._common.ciphertext_files import Parts, Serializable, pieces
from heliograph._common.container import Piece
from heliograph._common.html import HtmlRepr
from heliograph.frame.answers import Answer
from heliograph.frame.encrypted import EncryptedFrame, encrypted
from heliograph.frame.parameters import Parameters

_CLASSES: dict[str, tuple[Any, Any]] = {
    "ckks": (ckks.SecretKey, ckks.EvaluationKeys),
    "bgv": (bgv.SecretKey, bgv.EvaluationKeys),
}


class SecretKey(HtmlRepr):
    """The owner's keys of a frame: they encrypt, decrypt and make the server's keys. Keep these keys secret.

    >>> owner = hg.frame.SecretKey.generate(params)
    >>> owner.decrypt(hg.frame.Server(owner.evaluation_keys()).bind(owner.encrypt(sales))["quantity"].sum())
    16
    """

    def __init__(self, parameters: Parameters | None, several: Mapping[str, Any]) -> None:
        self.parameters = parameters  #: of the frame that `encrypt` takes; None for loaded keys
        self._keys = dict(several)

    @classmethod
    def generate(cls, parameters: Parameters) -> Self:
        """Makes keys for the sets of a frame.

        >>> sorted(hg.frame.SecretKey.generate(params).ids)
        ['bgv', 'ckks']
        """
        if not isinstance(parameters, Parameters):
            raise _core.DtypeError(
                f"parameters must be of hg.frame.parameters_for, got {type(parameters).__name__}; other sets make their "
                "keys by hg.SecretKey.generate"
            )
        sets = {scheme: parameters.set_of(scheme) for scheme in _CLASSES}
        return cls(parameters, {name: keys.SecretKey.generate(one) for name, one in sets.items() if one is not None})

    @property
    def ids(self) -> dict[str, str]:
        """Ids of the keys, by scheme."""
        return {scheme: key.id for scheme, key in self._keys.items()}

    def encrypt(self, frame: Any, parameters: Parameters | None = None) -> EncryptedFrame:
        """Encrypts a data frame with the columns, kinds and number of rows of `parameters`.

        Raises DtypeError, ShapeError, PlaintextRangeError for values outside a column's bounds, MismatchError for parameters
        of other sets.

        >>> len(owner.encrypt(sales))
        4
        """
        chosen = self.parameters if parameters is None else parameters
        if chosen is None:
            raise _core.ParameterError("loaded keys do not know the frame: pass parameters=")
        for scheme in {part.scheme for part in chosen.parts}:
            if scheme not in self._keys or self._keys[scheme].parameters != chosen.set_of(scheme):
                raise _core.MismatchError("the keys are of other sets than the frame's parameters; generate keys for these")
        return encrypted(frame, chosen, self._keys)

    def evaluation_keys(self, *, standardize: bool = False) -> EvaluationKeys:
        """Makes the server's keys, which multiply and do not decrypt; with `standardize`, also the rotations of
        `Series.standardize`.

        >>> owner.evaluation_keys().ids == owner.ids
        True
        """
        made = {}
        for scheme, key in self._keys.items():
            steps = ckks.sum_rotations(key.parameters.period) if standardize and scheme == "ckks" else ()
            made[scheme] = key.evaluation_keys(rotations=steps)
        return EvaluationKeys(made)

    def decrypt(self, answer: Answer) -> Any:
        """Decrypts an answer to a number, a pandas.Series or a pandas.DataFrame with the columns' names.

        Raises WrongKeyError, NoiseError, RoomError if an exact sum may exceed its modulus, ParameterError for a regression
        without a solution.

        >>> owner.decrypt(f["quantity"].mean())
        4.0
        """
        if not isinstance(answer, Answer):
            raise _core.DtypeError(
                f"decrypt takes an answer of an encrypted frame, got {type(answer).__name__}; compute a statistic first"
            )
        return answer._decrypted(self._keys)

    def save(self, folder: Any) -> None:
        """Writes the keys to a folder, one file for each scheme, which only its owner reads.

        >>> owner.save("owner")
        >>> hg.frame.SecretKey.load("owner").ids == owner.ids
        True
        """
        path = Path(path_of(folder))
        path.mkdir(mode=0o700, exist_ok=True)
        for scheme, key in self._keys.items():
            key.save(path / f"{scheme}.hg")

    @classmethod
    def load(cls, folder: Any, parameters: Parameters | None = None) -> Self:
        """Reads the keys that `save` wrote. Raises FormatError, DamagedFileError, OSError.

        >>> owner.save("owner")
        >>> hg.frame.SecretKey.load("owner", params).parameters.rows
        4
        """
        path = Path(path_of(folder))
        found = {
            scheme: one.load(path / f"{scheme}.hg")
            for scheme, (one, _) in _CLASSES.items()
            if (path / f"{scheme}.hg").exists()
        }
        if not found:
            raise FileNotFoundError(f"{path} has no keys of a frame; SecretKey.save writes them")
        return cls(parameters, found)

    def __repr__(self) -> str:
        return f"<secret key of frames: {', '.join(f'{name.upper()} {one[:8]}' for name, one in self.ids.items())}>"

    def _rows(self) -> list[tuple[str, str]]:
        return [("key", repr(self)[1:-1])]


class EvaluationKeys(Serializable):
    """The server's keys of frames. The server's keys cannot decrypt.

    >>> hg.frame.EvaluationKeys.from_bytes(owner.evaluation_keys().to_bytes()).ids == owner.ids
    True
    """

    _TYPE = "heliograph.frame.keys"

    def __init__(self, several: Mapping[str, Any]) -> None:
        self._keys = dict(several)

    @property
    def ids(self) -> dict[str, str]:
        """Ids of the secret keys, by scheme."""
        return {scheme: key.id for scheme, key in self._keys.items()}

    def _pieces(self) -> Iterator[Piece]:
        several = [key.to_bytes() for key in self._keys.values()]
        return pieces(self._TYPE, {"schemes": list(self._keys)}, several, [len(one) for one in several])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        several = [keys.from_bytes(bytes(parts[number])) for number in range(len(parts))]
        names = parts.header.get("schemes")
        if not isinstance(names, list) or len(names) != len(several) or not all(name in list(_CLASSES) for name in names):
            raise _core.DamagedFileError("this file's header must name the schemes of its keys")
        for name, one in zip(names, several, strict=True):
            if not isinstance(one, _CLASSES[name][1]):
                raise _core.DamagedFileError("this file's keys are not those that its header names")
        return cls(dict(zip(names, several, strict=True)))

    def __repr__(self) -> str:
        return f"<evaluation keys of frames: {', '.join(f'{name.upper()} {one[:8]}' for name, one in self.ids.items())}>"

    def _rows(self) -> list[tuple[str, str]]:
        return [("keys", repr(self)[1:-1])]


class Server(HtmlRepr):
    """A party that computes on encrypted frames: it holds evaluation keys and no secret key.

    >>> server = hg.frame.Server(owner.evaluation_keys())
    >>> owner.encrypt(sales).save("sales.hg")
    >>> f = server.load("sales.hg")
    >>> round(owner.decrypt(f["price"].mean()), 6)
    20.0
    """

    def __init__(self, evaluation_keys: EvaluationKeys) -> None:
        if not isinstance(evaluation_keys, EvaluationKeys):
            raise _core.DtypeError(
                f"a server of frames takes the keys of hg.frame.SecretKey.evaluation_keys, got "
                f"{type(evaluation_keys).__name__}"
            )
        self.keys = evaluation_keys
        self._servers = {scheme: keys.Server(one) for scheme, one in evaluation_keys._keys.items()}

    def bind(self, frame: EncryptedFrame) -> EncryptedFrame:
        """Returns the frame with this server's keys attached. Raises DtypeError, MismatchError, WrongKeyError.

        >>> server.bind(owner.encrypt(sales)).columns
        ['price', 'quantity', 'region']
        """
        if not isinstance(frame, EncryptedFrame):
            raise _core.DtypeError(f"a server binds encrypted frames, not {type(frame).__name__}")
        missing = {scheme for _, _, scheme in frame._tensors} - set(self._servers)
        if missing:
            raise _core.MismatchError(f"the frame needs keys of {min(missing).upper()}, which this server lacks")
        tensors = {place: self._servers[place[2]].bind(tensor) for place, tensor in frame._tensors.items()}
        return frame._like(tensors=tensors, bound=True)

    def load(self, path: Any) -> EncryptedFrame:
        """Reads a frame from a file and binds it. Raises the errors of `EncryptedFrame.load` and `bind`.

        >>> server.load("sales.hg").columns[0]
        'price'
        """
        return self.bind(EncryptedFrame.load(path))

    def from_bytes(self, data: Any) -> EncryptedFrame:
        """Reads a frame from bytes and binds it. Raises the errors of `load`.

        >>> len(server.from_bytes(owner.encrypt(sales).to_bytes()))
        4
        """
        return self.bind(EncryptedFrame.from_bytes(data))

    def __repr__(self) -> str:
        return f"<server of frames: {self.keys!r}>"

    def _rows(self) -> list[tuple[str, str]]:
        return [("server", repr(self.keys)[1:-1])]
