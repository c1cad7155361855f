"""Layout for several images in the smallest ring, for a network of a convolution and a dense layer.

The client sends one ciphertext for each kernel offset (a tap), which holds the pixels at that offset from all output
positions of all images. The convolution is then one matrix product with scalar weights, whose result is a ciphertext for
each map.

A row of slots holds S images with T places each, T a power of two: place i of image s is slot i S + s. A rotation by i S
slots moves every image cyclically by i places.

The dense layer has h classes, h a power of two. Place j of partial sum d holds the input of position j times its weight for
class (j - d) mod h, summed over the maps; this is one product with plaintext weights. Partial sum d is rotated by d places,
and the sums are added: place i then holds the share of h inputs in class i mod h. The places i + h, i + 2 h, ... hold the
shares of the other inputs, and log2(T / h) rotations fold them. The rotations by d are composed of powers of two, half of
the partial sums at a time, h - 1 in all.

Source: the diagonal method of Halevi and Shoup, ePrint 2014/106, on many small matrices at once.
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
from heliograph._common.functions import matmul, relinearize, rotate_rows, shrink, square, sum
from heliograph.exact import Parameters, encode
from heliograph.nn.networks import AnyTensor, Network


class TiledNetwork:
    """The layout of `images` images in `n` slots, for a network of a convolution and a dense layer.

    The client packs images and unpacks logits; the server runs the network. `needs` are the arguments for its keys. Raises
    ParameterError if the network does not fit.

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
            raise _core.ParameterError(
                f"a tiled network must be a convolution of one channel and a dense layer, and {network.name} is not"
            )
        self.network, self.n = network, n
        self.convolution, self.dense = network.layers
        self.maps = len(self.convolution.weight)
        self.positions = self.dense.weight.shape[1] // self.maps
        self.height = 1 << (network.classes - 1).bit_length()
        self.places: int = max(1 << (self.positions - 1).bit_length(), self.height)
        self.stride: int = n // 2 // self.places  # slots between places, the number of images in a row
        if not self.stride:
            raise _core.ParameterError(
                f"{network.name} needs {self.places} places in a row of slots, more than the {n // 2:,} of this ring"
            )

    @property
    def images(self) -> int:
        """Number of images of a request."""
        return 2 * self.stride

    @property
    def rotations(self) -> list[int]:
        """Rotation steps within rows."""
        return [self.stride << k for k in range(self.places.bit_length() - 1)]

    @property
    def columns(self) -> bool:
        """Whether the server exchanges the two rows of slots."""
        return False

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": True, "rotations": self.rotations, "columns": self.columns}

    def export(self, path: Any, *, parameters: Parameters | None = None, **texts: Any) -> Any:
        """Writes the network as a model bundle for some images in a small ring. Options are those of `Network.export`.

        >>> model = nn.setup("mnist-small").layout().export("digits.hgm")
        >>> model.kind, model.inputs[0].items
        ('network.tiled', 32)
        """
        return export("network.tiled", self, path, parameters=parameters, **texts)

    # The client

    def pack(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Returns the tiled, quantized pixels [taps, n] of up to `images` images, for `SecretKey.encrypt`.

        Raises ShapeError, and as `Network.quantize`.

        >>> nn.setup("mnist-small").layout().pack(np.zeros((2, 28, 28))).shape
        (25, 4096)
        """
        pixels = self.network.quantize(images, unchecked=unchecked)
        if not 1 <= len(pixels) <= self.images:
            raise _core.ShapeError(
                f"a request to {self.network.name} must hold 1 to {self.images} images, not {len(pixels):,}"
            )
        windows = np.lib.stride_tricks.sliding_window_view(
            self.convolution.padded(pixels), self.convolution.weight.shape[2:], axis=(1, 2)
        )
        taps = windows[:, :: self.convolution.stride, :: self.convolution.stride].transpose(3, 4, 1, 2, 0)
        rows = np.zeros((self.convolution.weight[0, 0].size, 2, self.places, self.stride), dtype=np.int64)
        for row in range(2):
            taps_of_row = taps[..., row * self.stride : (row + 1) * self.stride]
            rows[:, row, : self.positions, : taps_of_row.shape[-1]] = taps_of_row.reshape(len(rows), self.positions, -1)
        return rows.reshape(len(rows), self.n)

    def unpack(self, values: npt.NDArray[Any]) -> Int64Array:
        """Returns the logits [images, classes] of decrypted slots [n]. Places without an image have the logits of a blank
        image.

        >>> nn.setup("mnist-small").layout().unpack(np.arange(4096)).shape
        (32, 10)
        """
        rows = np.asarray(values).reshape(2, self.places, self.stride)[:, : self.network.classes]
        return np.ascontiguousarray(rows.transpose(0, 2, 1).reshape(self.images, self.network.classes))

    # The server

    def server(self, parameters: Parameters | None) -> TiledServer:
        """Returns a server of the network for one parameter set; with None, for clear tensors.

        >>> layout = nn.setup("mnist-small").layout()
        >>> layout.server(None).run(hg.ClearTensor(layout.pack(np.zeros((2, 28, 28))))).slots  # None: in the clear
        4096
        """
        return TiledServer(self, parameters)

    def dense_values(self) -> tuple[Int64Array, Int64Array]:
        """Returns the dense layer's weights [h, maps, n], by partial sum, map and slot, and its bias [n].

        >>> nn.setup("mnist-small").layout().dense_values()[1].shape
        (4096,)
        """
        classes = self.network.classes
        weights = np.zeros((self.height, self.maps, self.places), dtype=np.int64)
        weights[:classes, :, : self.positions] = self.dense.weight.reshape(classes, self.maps, self.positions)
        bias = np.zeros(self.height, dtype=np.int64)
        bias[:classes] = self.dense.bias
        place, turn = np.arange(self.places), np.arange(self.height)[:, None]
        block = weights[(place - turn) % self.height, :, place].transpose(0, 2, 1)
        return self._in_slots(block), self._in_slots(bias[place % self.height])

    def _in_slots(self, values: Int64Array) -> Int64Array:
        """Repeats values of the places [..., T] for every image."""
        return np.tile(np.repeat(values, self.stride, axis=-1), 2)


class TiledServer:
    """A tiled network with its weights encoded for one parameter set; with None, for clear tensors.

    The encoding takes longer than a run.

    >>> layout = nn.setup("mnist-small").layout()
    >>> pictures = np.random.default_rng(2).integers(0, 256, (2, 28, 28))
    >>> answer = layout.server(None).run(hg.ClearTensor(layout.pack(pictures)))
    >>> np.array_equal(layout.unpack(answer.values)[:2], layout.network.clear_logits(pictures))
    True
    """

    def __init__(self, layout: TiledNetwork, parameters: Parameters | None) -> None:
        def encoded(values: Int64Array) -> Any:
            return ClearTensor(values) if parameters is None else encode(parameters, values)

        self.layout = layout
        self._dense, self._bias = (encoded(v) for v in layout.dense_values())

    def run(self, x: AnyTensor) -> AnyTensor:
        """Returns the encrypted logits, at the smallest modulus that their noise allows; `TiledNetwork.unpack` reads them.

        >>> layout = nn.setup("mnist-small").layout()
        >>> layout.unpack(layout.server(None).run(hg.ClearTensor(layout.pack(np.zeros((1, 28, 28))))).values).shape
        (32, 10)
        """
        at = self.layout
        tensors.require_keys(x, at.network.name, at.needs)
        x = square(matmul(at.convolution.weight.reshape(at.maps, -1), x, at.convolution.bias))
        if at.maps <= at.height:  # otherwise it is cheaper to relinearize only the partial sums
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
