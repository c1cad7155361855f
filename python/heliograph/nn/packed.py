"""Layout for one image at low latency: its pixels are packed into the slots. Source: LoLa, ePrint 2018/1207.

A first convolution takes no rotation. The client sends one ciphertext for each kernel offset, which holds the pixels at that
offset from all output positions. The layer is then one matrix product with scalar weights.

A dense layer of up to h outputs (h a power of two) reads its P inputs repeated with a period M >= P over both rows of slots.
Slot p contributes to output p mod h. With R rotated copies it sees the inputs p, ..., p + R - 1 modulo M. M and R are chosen
so that the slots of each output see every input. One product with plaintext weights, one sum and log2(slots / h) rotations
fold the slots of each output, which leaves the outputs repeated with period h. The next dense layer multiplies copy o of its
inputs by row o of its weights and folds each copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common import tensor as tensors
from heliograph._common.arguments import Int64Array
from heliograph._common.clear_tensor import ClearTensor
from heliograph._common.exporters import export
from heliograph._common.functions import matmul, relinearize, rotate_columns, rotate_rows, shrink, square, sum
from heliograph.exact import Parameters, encode
from heliograph.nn.networks import AnyTensor, Layer, Network


def _period(inputs: int, h: int, slots: int) -> tuple[int, int]:
    """Returns (R, M), the fewest rotated copies and then the smallest period for which each output sees every input."""
    windows = slots // h
    for copies in range(1, h + 1):
        for period in range(inputs, min(copies * windows, slots) + 1):
            offsets = {(k * h + d) % period for k in range(windows) for d in range(copies)}
            if len(offsets) == period:
                return copies, period
    raise _core.ParameterError(f"{inputs} inputs and {h} outputs do not fit {slots} slots; use a set with more slots")


def _require_all_inputs(inputs: int, h: int, slots: int, layout: tuple[int, int]) -> None:
    """Raises ParameterError if copies and period exceed the slots, or an output does not depend on every input."""
    copies, period = layout
    windows = slots // h
    if not (inputs <= period <= min(copies * windows, slots, 2 * inputs + h) and copies <= h):
        raise _core.ParameterError(f"{copies} copies with period {period} do not fit {inputs} inputs in {slots} slots")
    offsets = (np.arange(windows)[:, None] * h + np.arange(copies)) % period
    if len(np.unique(offsets)) != period:
        raise _core.ParameterError(f"with {copies} copies and period {period} no output sees all {inputs} inputs")


class PackedNetwork:
    """The layout of one image in `n` slots, for a network of an optional convolution and two dense layers.

    The client packs images and unpacks logits; the server runs the network. `needs` are the arguments for its keys. Raises
    ParameterError if the network does not fit.

    >>> setup = nn.setup("digits")
    >>> layout = setup.layout()
    >>> secret = hg.SecretKey.generate(setup.parameters())
    >>> server = hg.Server(secret.evaluation_keys(for_=layout))
    >>> run = layout.server(server.parameters)  # encodes the weights
    >>> logits = layout.unpack(secret.decrypt(run.run(server.bind(secret.encrypt(layout.pack(image))))))
    >>> np.array_equal(logits, network.clear_logits([image])[0])
    True
    """

    def __init__(self, network: Network, n: int, copies_and_period: tuple[int, int] | None = None) -> None:
        first, *rest = network.layers
        self.network, self.n = network, n
        self.convolution: Layer | None = first if first.convolution else None
        self._wide, self._narrow = rest if self.convolution else network.layers
        self.maps = self.convolution.weight.shape[0] if self.convolution else 1
        self._inputs = self._wide.weight.shape[1] // self.maps
        self.height = 1 << (self._wide.weight.shape[0] - 1).bit_length()
        if copies_and_period is not None:  # (copies, period) from a file
            _require_all_inputs(self._inputs, self.height, n, copies_and_period)
        self.copies, self.period = _period(self._inputs, self.height, n) if copies_and_period is None else copies_and_period
        last = self.height - (self.copies - 1)  # a rotation beyond it crosses the end of the row
        if self._wide.weight.shape[0] > last or network.classes * self.height > n // 2:
            raise _core.ParameterError(f"{network.name} does not fit {n:,} slots; use a set with more slots")

    #: Number of images of a request.
    images = 1

    @property
    def rotations(self) -> list[int]:
        """Rotation steps within rows."""
        folds = [1 << k for k in range((self.n // 4).bit_length())]
        return sorted({*range(1, self.copies), *folds})

    @property
    def columns(self) -> bool:
        """Whether the server exchanges the two rows of slots."""
        return True

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": True, "rotations": self.rotations, "columns": self.columns}

    def export(self, path: Any, *, parameters: Parameters | None = None, **texts: Any) -> Any:
        """Writes the network as a model bundle for one image at low latency. Options are those of `Network.export`.

        >>> nn.setup("digits").layout().export("digits.hgm", title="handwritten digits").kind
        'network.packed'
        """
        return export("network.packed", self, path, parameters=parameters, **texts)

    # The client

    def pack(self, image: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Returns the packed, quantized pixels of one image: [taps, n], or [n] without a convolution, for
        `SecretKey.encrypt`.

        Raises the errors of `Network.quantize`.

        >>> nn.setup("digits").layout().pack(image).shape
        (8192,)
        """
        pixels = self.network.quantize(np.asanyarray(image)[None], unchecked=unchecked)[0]
        if self.convolution is None:
            return self._repeated(pixels.reshape(-1))
        padded, stride = self.convolution.padded(pixels[None])[0], self.convolution.stride
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.convolution.weight.shape[2:])
        taps = windows[::stride, ::stride].transpose(2, 3, 0, 1)
        return np.stack([self._repeated(t) for t in taps.reshape(-1, self._inputs)])

    def unpack(self, values: npt.NDArray[Any]) -> Int64Array:
        """Returns the logits [classes] of decrypted slots [n].

        >>> nn.setup("digits").layout().unpack(np.arange(8192)).shape
        (10,)
        """
        return np.asarray(values[: self.network.classes * self.height : self.height])

    def _repeated(self, values: Int64Array) -> Int64Array:
        full = np.zeros(self.period, dtype=np.int64)
        full[: self._inputs] = values
        return np.resize(full, self.n)

    # The server

    def server(self, parameters: Parameters | None) -> PackedServer:
        """Returns a server of the network for one parameter set; with None, for clear tensors.

        >>> layout = nn.setup("digits").layout()
        >>> layout.server(None).run(hg.ClearTensor(layout.pack(image))).slots  # None: in the clear
        8192
        """
        return PackedServer(self, parameters)

    def wide_values(self) -> tuple[Int64Array, Int64Array]:
        """Returns the first dense layer's weights [R, maps, n], by number of rotations d, map and slot, and its bias [n].

        >>> nn.setup("digits").layout().wide_values()[1].shape
        (8192,)
        """
        h, outputs = self.height, self._wide.weight.shape[0]
        weights = np.zeros((self.maps, h, self.period), dtype=np.int64)
        by_map = self._wide.weight.reshape(outputs, self.maps, self._inputs)
        weights[:, :outputs, : self._inputs] = by_map.transpose(1, 0, 2)
        result = np.zeros((self.copies, self.maps, self.n), dtype=np.int64)
        counted: set[int] = set()
        output = np.arange(h)
        for k in range(self.n // h):
            for d in range(self.copies):
                if (k * h + d) % self.period in counted:  # count each input once
                    continue
                counted.add((k * h + d) % self.period)
                slot = k * h + output
                result[d][:, slot] = weights[:, output, (slot + d) % self.period]
        bias = np.zeros(h, dtype=np.int64)
        bias[:outputs] = self._wide.bias
        return result, np.resize(bias, self.n)

    def narrow_values(self) -> tuple[Int64Array, Int64Array]:
        """Returns the second dense layer's weights [n], where copy o of the hidden values meets row o, and its bias [n].

        >>> nn.setup("digits").layout().narrow_values()[0].shape
        (8192,)
        """
        classes, hidden = self._narrow.weight.shape
        rows = np.zeros((self.n // self.height, self.height), dtype=np.int64)
        rows[:classes, :hidden] = self._narrow.weight
        bias = np.zeros_like(rows)
        bias[:classes, 0] = self._narrow.bias
        return rows.reshape(-1), bias.reshape(-1)


class PackedServer:
    """A packed network with its weights encoded for one parameter set; with None, for clear tensors.

    The encoding takes longer than a run.

    >>> layout = nn.setup("digits").layout()
    >>> answer = layout.server(None).run(hg.ClearTensor(layout.pack(image)))
    >>> np.array_equal(layout.unpack(answer.values), network.clear_logits([image])[0])
    True
    """

    def __init__(self, layout: PackedNetwork, parameters: Parameters | None) -> None:
        def encoded(values: Int64Array) -> Any:
            return ClearTensor(values) if parameters is None else encode(parameters, values)

        self.layout = layout
        self._wide, self._wide_bias = (encoded(v) for v in layout.wide_values())
        self._narrow, self._narrow_bias = (encoded(v) for v in layout.narrow_values())

    def run(self, x: AnyTensor) -> AnyTensor:
        """Returns the encrypted logits, at the smallest modulus that their noise allows; `PackedNetwork.unpack` reads them.

        >>> layout = nn.setup("digits").layout()
        >>> layout.unpack(layout.server(None).run(hg.ClearTensor(layout.pack(image))).values).shape
        (10,)
        """
        at = self.layout
        tensors.require_keys(x, at.network.name, at.needs)
        if at.convolution is not None:
            taps = at.convolution.weight.reshape(at.maps, -1)
            x = square(matmul(taps, x, at.convolution.bias))
        if at.copies > 1:
            x = rotate_rows(relinearize(x.reshape(at.maps)), range(at.copies))
        x = relinearize(sum(x.reshape(at.copies, at.maps) * self._wide))
        x = _folded(x + rotate_columns(x), at.n // 4, at.height)
        x = relinearize(square(x + self._wide_bias) * self._narrow)
        logits: AnyTensor = _folded(x, at.height // 2, 1) + self._narrow_bias
        return shrink(logits)


def _folded(x: AnyTensor, first: int, last: int) -> AnyTensor:
    """Adds to x its rotation by `first`, then by half of that, and so on down to `last`."""
    step = first
    while step >= last:
        x = x + rotate_rows(x, step)
        step //= 2
    return x
