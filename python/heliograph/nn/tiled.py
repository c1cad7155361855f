"""Several images side by side in the slots, through a network of a convolution and a dense layer, in a small ring.

The client sends one ciphertext for each kernel offset (a tap), holding the pixels seen there from all output positions of all
images: the convolution is one matrix product with scalar weights, and gives a ciphertext for each map.

A row of slots is cut into places, T of them (a power of two) for each image, and S images: place i of image s is slot i S + s.
A turn by i S slots thus moves every image by i places, around. The dense layer has h classes, a power of two. Place j of
partial sum d has the input of position j times its weight for class (j - d) mod h, summed over the maps: one product with
plaintext weights. Partial sum d turned by d places and all of them added, place i has h inputs' share in class i mod h; what is
h, 2 h, ... places on has the others', and log2(T / h) turns fold them. The turns by d are made as those of a binary number,
half of the partial sums at a time: h - 1 of them. (The diagonal method of Halevi and Shoup, ePrint 2014/106, on many small
matrices at once.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, _shapes, bfv
from heliograph._arrays import Int64Array
from heliograph._sealing import seal
from heliograph.clear import ClearTensor
from heliograph.exact import encode
from heliograph.functions import matmul, relinearize, rotate_rows, shrink, square, sum
from heliograph.nn.networks import AnyTensor, Network


class TiledNetwork:
    """A network of a convolution and a dense layer, arranged for `images` images in `n` slots.

    The client packs and unpacks, the server runs. `rotations` are the keys it needs.

    >>> setup = nn.setup("mnist-small")
    >>> layout = setup.layout()
    >>> secret = hg.SecretKey.generate(setup.parameters())
    >>> server = hg.Server(secret.evaluation_keys(for_=layout))
    >>> run = layout.server(server.parameters)  # encodes the weights
    >>> pictures = np.random.default_rng(1).integers(0, 256, (3, 28, 28))
    >>> logits = layout.unpack(secret.decrypt(run.run(server.bind(secret.encrypt(layout.pack(pictures))))))
    >>> np.array_equal(logits[:3], setup.load().clear_logits(pictures))
    True
    """

    def __init__(self, network: Network, n: int) -> None:
        shape = [layer.convolution for layer in network.layers]
        if shape != [True, False] or network.shapes()[0][0] != 1:
            raise _core.ParameterError(f"{network.name} is not a convolution of one channel and a dense layer")
        self.network, self.n = network, n
        self.convolution, self.dense = network.layers
        self.maps = len(self.convolution.weight)
        self.positions = self.dense.weight.shape[1] // self.maps
        self.height = 1 << (network.classes - 1).bit_length()
        self.places: int = max(1 << (self.positions - 1).bit_length(), self.height)
        self.stride: int = n // 2 // self.places  # slots from a place to the next: images in a row
        if not self.stride:
            raise _core.ParameterError(
                f"{network.name} takes {self.places} places in a row of slots; {n // 2:,} do not fit it"
            )

    @property
    def images(self) -> int:
        """How many images a request holds."""
        return 2 * self.stride

    @property
    def rotations(self) -> list[int]:
        """Row steps the server rotates by."""
        return [self.stride << k for k in range(self.places.bit_length() - 1)]

    @property
    def columns(self) -> bool:
        """Whether it exchanges the two rows of slots too."""
        return False

    @property
    def needs(self) -> dict[str, Any]:
        """The arguments of `SecretKey.evaluation_keys` that make its keys."""
        return {"relinearize": True, "rotations": self.rotations, "columns": self.columns}

    def seal(self, path: Any, *, parameters: bfv.Parameters | None = None, **texts: Any) -> Any:
        """Writes it as a sealed model for some images in a small ring; as `Network.seal`.

        >>> model = nn.setup("mnist-small").layout().seal("digits.hgm")
        >>> model.kind, model.inputs[0].items
        ('network.tiled', 32)
        """
        return seal("network.tiled", self, path, parameters=parameters, **texts)

    # The client

    def pack(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Quantized pixels of up to `images` images, as `SecretKey.encrypt` takes them: [taps, n]. Raises ShapeError, and as
        `Network.quantize`.

        >>> nn.setup("mnist-small").layout().pack(np.zeros((2, 28, 28))).shape
        (25, 4096)
        """
        pixels = self.network.quantize(images, unchecked=unchecked)
        if not 1 <= len(pixels) <= self.images:
            raise _core.ShapeError(f"{len(pixels):,} images; a request to {self.network.name} holds 1 to {self.images}")
        windows = np.lib.stride_tricks.sliding_window_view(
            self.convolution.padded(pixels), self.convolution.weight.shape[2:], axis=(1, 2)
        )
        taps = windows[:, :: self.convolution.stride, :: self.convolution.stride].transpose(3, 4, 1, 2, 0)
        rows = np.zeros((self.convolution.weight[0, 0].size, 2, self.places, self.stride), dtype=np.int64)
        for row in range(2):
            held = taps[..., row * self.stride : (row + 1) * self.stride]
            rows[:, row, : self.positions, : held.shape[-1]] = held.reshape(len(rows), self.positions, -1)
        return rows.reshape(len(rows), self.n)

    def unpack(self, values: npt.NDArray[Any]) -> Int64Array:
        """Logits [images, classes] from the decrypted slots; what a request left empty has those of a blank image.

        >>> nn.setup("mnist-small").layout().unpack(np.arange(4096)).shape
        (32, 10)
        """
        rows = np.asarray(values).reshape(2, self.places, self.stride)[:, : self.network.classes]
        return np.ascontiguousarray(rows.transpose(0, 2, 1).reshape(self.images, self.network.classes))

    # The server

    def server(self, parameters: bfv.Parameters | None) -> TiledServer:
        """What runs it, for one parameter set.

        >>> layout = nn.setup("mnist-small").layout()
        >>> layout.server(None).run(hg.ClearTensor(layout.pack(np.zeros((2, 28, 28))))).slots  # None: in the clear
        4096
        """
        return TiledServer(self, parameters)

    def dense_values(self) -> tuple[Int64Array, Int64Array]:
        """Weights [h, maps, n]: of partial sum d, map and slot. Bias [n].

        >>> nn.setup("mnist-small").layout().dense_values()[1].shape
        (4096,)
        """
        classes = self.network.classes
        weights = np.zeros((self.height, self.maps, self.places), dtype=np.int64)
        weights[:classes, :, : self.positions] = self.dense.weight.reshape(classes, self.maps, self.positions)
        bias = np.zeros(self.height, dtype=np.int64)
        bias[:classes] = self.dense.bias
        place, turn = np.arange(self.places), np.arange(self.height)[:, None]
        chosen = weights[(place - turn) % self.height, :, place].transpose(0, 2, 1)
        return self._in_slots(chosen), self._in_slots(bias[place % self.height])

    def _in_slots(self, values: Int64Array) -> Int64Array:
        """The same of every image, for values of the places."""
        return np.tile(np.repeat(values, self.stride, axis=-1), 2)


class TiledServer:
    """A tiled network with its weights encoded for one parameter set, which takes longer than a run. `None`: for clear tensors.

    >>> layout = nn.setup("mnist-small").layout()
    >>> pictures = np.random.default_rng(2).integers(0, 256, (2, 28, 28))
    >>> answer = layout.server(None).run(hg.ClearTensor(layout.pack(pictures)))
    >>> np.array_equal(layout.unpack(answer.values)[:2], layout.network.clear_logits(pictures))
    True
    """

    def __init__(self, layout: TiledNetwork, parameters: bfv.Parameters | None) -> None:
        def encoded(values: Int64Array) -> Any:
            return ClearTensor(values) if parameters is None else encode(parameters, values)

        self.layout = layout
        self._dense, self._bias = (encoded(v) for v in layout.dense_values())

    def run(self, x: AnyTensor) -> AnyTensor:
        """Logits in known slots, in as small a modulus as their noise allows.

        >>> layout = nn.setup("mnist-small").layout()
        >>> layout.unpack(layout.server(None).run(hg.ClearTensor(layout.pack(np.zeros((1, 28, 28))))).values).shape
        (32, 10)
        """
        at = self.layout
        _shapes.require_keys(x, at.network.name, at.needs)
        x = square(matmul(at.convolution.weight.reshape(at.maps, -1), x, at.convolution.bias))
        if at.maps <= at.height:  # else there are fewer partial sums
            x = relinearize(x)
        x = relinearize(sum(x.reshape(1, at.maps) * self._dense, axis=1))
        half = at.height // 2
        while half:
            x = x[:half] + rotate_rows(x[half:], half * at.stride)
            half //= 2
        logits: AnyTensor = x[0]
        step = at.height
        while step < at.places:
            logits = logits + rotate_rows(logits, step * at.stride)
            step *= 2
        logits = shrink(logits + self._bias)
        return logits
