"""The shipped networks: encrypted runs equal clear ones, layouts, parameter sets, accuracy."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph import nn
from heliograph.cli import idx, strokes
from heliograph.nn import networks

PACKED = [*(name for name, setup in nn.SETUPS.items() if setup.packed), "mnist-packed/w32"]
MNIST = [("hcnn5", 0.99), ("hcnn5-paper", 0.985), ("mnist-packed", 0.985), ("mnist-small", 0.98)]


def mnist(part: str) -> tuple[np.ndarray, np.ndarray]:
    """MNIST's images and labels; skips where they are not at hand."""
    default = Path(__file__).parents[3] / "shared" / "data" / "mnist"
    folder = Path(os.environ.get("HELIOGRAPH_MNIST", default))
    if not (folder / f"{part}-images-idx3-ubyte.gz").exists():
        pytest.skip(f"MNIST is not in {folder} (set HELIOGRAPH_MNIST)")
    images = idx.images(folder / f"{part}-images-idx3-ubyte.gz")
    return images, idx.labels(folder / f"{part}-labels-idx1-ubyte.gz")


def packed(layout: nn.PackedNetwork | nn.TiledNetwork, images: np.ndarray) -> np.ndarray:
    """A request's values: of one image, or of all."""
    return layout.pack(images if isinstance(layout, nn.TiledNetwork) else images[0])


def noise_images(network: nn.Network, count: int) -> np.ndarray:
    """Random images of the network's size."""
    top = 16 if network.image == (8, 8) else 255
    return np.random.default_rng(7).integers(0, top + 1, (count, *network.image))


@pytest.mark.parametrize("name", nn.names())
def test_networks_load(name: str) -> None:
    """Shapes fit together, weights cannot be changed, and the logits have one class each."""
    network = nn.load(name)
    assert network.shapes()[-1] == (10,)
    assert network is nn.load(name)
    with pytest.raises(ValueError, match="read-only"):
        network.layers[0].weight[...] = 0


def test_an_unknown_network_is_named() -> None:
    """And the known ones are listed."""
    with pytest.raises(hg.ParameterError, match=r'no network "resnet".*hcnn5'):
        nn.load("resnet")
    with pytest.raises(hg.ParameterError, match="digits-batch"):
        nn.setup("resnet")


def test_product_counts_are_the_papers() -> None:
    """Ciphertext-constant products: 126,000 dense over input maps, 46,000 as Al Badawi and others count them."""
    dense, paper = nn.load("hcnn5").counts(), nn.load("hcnn5-paper").counts()
    assert (dense.inputs, dense.products, dense.constants) == (784, 1520, 126_000)
    assert (paper.inputs, paper.products, paper.constants) == (784, 1520, 46_000)
    assert dense.relinearizations == 720 + 10
    assert (paper.additions, paper.biases) == (46_000 - 1530, 720 + 800 + 10)


def test_windows_are_summed_by_additions() -> None:
    """HCNN-11: a sum of four squares for each of a pooled layer's outputs."""
    network = nn.load("hcnn11")
    outputs = [math.prod(layer.linear_shape(shape)) for layer, shape in zip(network.layers, network.shapes(), strict=False)]
    left = [math.prod(shape) for shape in network.shapes()[1:]]
    counts = network.counts()
    assert counts.biases == sum(outputs)
    assert counts.additions == counts.constants - sum(outputs) + sum(outputs) - sum(left)
    assert sum(outputs) > sum(left)


@pytest.mark.parametrize("name", nn.names())
def test_quantization_rounds_to_nearest(name: str) -> None:
    """Within 0 ... levels, ends on ends, and wrong shapes are refused."""
    network = nn.load(name)
    top = 16 if network.image == (8, 8) else 255
    values = np.arange(top + 1)
    images = np.broadcast_to(values.reshape(-1, *[1] * len(network.image)), (len(values), *network.image))
    quantized = network.quantize(images).reshape(len(values), -1)[:, 0]
    assert np.abs(quantized - values * network.levels / top).max() <= 0.5
    assert (quantized[0], quantized[-1]) == (0, network.levels)
    with pytest.raises(hg.ShapeError, match="takes images of shape"):
        network.quantize(np.zeros((1, 5, 5)))


@pytest.mark.parametrize("name", PACKED)
def test_packed_layouts_compute_the_network(name: str) -> None:
    """Slots, rotations and folds on clear values give the network's logits, at each ring degree that fits."""
    setup = nn.setup(name)
    network = setup.load()
    for n in (setup.n, 2 * setup.n):
        layout = setup.layout(n)
        images = noise_images(network, layout.images)
        answer = layout.server(None).run(hg.ClearTensor(packed(layout, images)))
        logits = layout.unpack(answer.values).reshape(len(images), -1)
        np.testing.assert_array_equal(logits, network.clear_logits(images))


def test_a_tiled_request_holds_so_many_images() -> None:
    """One to as many as there is room for; what is left empty has a blank image's logits."""
    layout = nn.setup("mnist-small").layout()
    assert isinstance(layout, nn.TiledNetwork)
    assert layout.images == 32
    for count in (0, 33):
        with pytest.raises(hg.ShapeError, match=rf"{count} images; a request to mnist-small holds 1 to 32"):
            layout.pack(np.zeros((count, 28, 28)))
    images = noise_images(layout.network, 19)  # more than one row of slots holds
    logits = layout.unpack(layout.server(None).run(hg.ClearTensor(layout.pack(images))).values)
    np.testing.assert_array_equal(logits[:19], layout.network.clear_logits(images))
    assert (logits[19:] == layout.network.clear_logits(layout.network.blank())).all()


def test_editions_of_setups_are_named() -> None:
    """A network's set in words of 32 bits; what there is none of is listed."""
    setup = nn.setup("mnist-packed/w32")
    assert (setup.name, setup.parameters().edition, setup.network) == ("mnist-packed/w32", "w32", "mnist-packed")
    assert nn.setup("hcnn5/w32").parameters() == hg.bfv.parameters("hcnn5/w32")
    assert nn.setup("mnist-small").parameters().edition == "w32"
    with pytest.raises(hg.ParameterError, match=r'no edition "w16" of hcnn5; there are w32, w64'):
        nn.setup("hcnn5/w16")


def test_too_few_slots_are_refused() -> None:
    """A layout that does not fit says so."""
    with pytest.raises(hg.ParameterError, match=r"do(es)? not fit"):
        nn.setup("mnist-packed").layout(1024)
    with pytest.raises(hg.ParameterError, match=r"mnist-small takes 128 places in a row of slots; 64 do not fit it"):
        nn.setup("mnist-small").layout(128)
    with pytest.raises(hg.ParameterError, match="not a convolution of one channel and a dense layer"):
        nn.TiledNetwork(nn.load("hcnn5"), 8192)
    with pytest.raises(hg.ParameterError, match="one image a slot"):
        nn.setup("hcnn5").layout()


@pytest.mark.parametrize("name", PACKED)
def test_packed_networks_run_encrypted(name: str) -> None:
    """Every logit right, noise to spare, with just the keys the setup lists."""
    setup = nn.setup(name)
    network, parameters = setup.load(), setup.parameters()
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    layout = setup.layout()
    images = noise_images(network, layout.images)
    answer = layout.server(server.parameters).run(server.bind(secret.encrypt(packed(layout, images))))
    logits = layout.unpack(secret.decrypt(answer)).reshape(len(images), -1)
    np.testing.assert_array_equal(logits, network.clear_logits(images))
    assert secret.noise_budget(answer) > 1
    assert answer.degree == 1


def test_a_missing_rotation_key_is_named() -> None:
    """Keys for fewer rotations than the layout needs."""
    setup = nn.setup("digits")
    secret = hg.SecretKey.generate(setup.parameters())
    server = hg.Server(secret.evaluation_keys(rotations=setup.layout().rotations[1:], columns=True))
    x = server.bind(secret.encrypt(setup.layout().pack(np.zeros((8, 8), dtype=int))))
    with pytest.raises(hg.MissingKeyError, match=r"digits: it needs the rotations 1, 2, 4, .*lack the rotations 1\."):
        setup.layout().server(server.parameters).run(x)


def run_batch(setup: nn.Setup, images: np.ndarray) -> np.ndarray:
    """Encrypt, evaluate, decrypt."""
    secret = hg.SecretKey.generate(setup.parameters())
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    parts: list[str] = []
    answer = setup.load().evaluate(
        server.bind(secret.encrypt(setup.load().arrange(images), pad=True)), lambda part, share: parts.append(part)
    )
    assert {"square", "relinearize"} <= set(parts)
    assert secret.noise_budget(answer) > 1
    return secret.decrypt(answer).T


def test_a_batch_of_digits_runs_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One image a slot; the same where the squares are made in parts to save memory."""
    setup = nn.setup("digits-batch")
    images = noise_images(setup.load(), 50)
    expected = setup.load().clear_logits(images)
    np.testing.assert_array_equal(run_batch(setup, images), expected)
    monkeypatch.setattr(networks, "_MANY", 0)
    np.testing.assert_array_equal(run_batch(setup, images), expected)


@pytest.mark.full
@pytest.mark.parametrize("name", ["hcnn5", "hcnn5-paper"])
def test_hcnn5_runs_encrypted(name: str) -> None:
    """A few images in one batch: every logit right."""
    setup = nn.setup(name)
    images = noise_images(setup.load(), 3)
    np.testing.assert_array_equal(run_batch(setup, images), setup.load().clear_logits(images))


LONG_SEARCHES = ("hcnn11", "hcnn5-paper")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.full] * (n in LONG_SEARCHES)) for n in nn.SETUPS])
def test_sets_are_what_the_search_finds(name: str) -> None:
    """The recorded numbers are 128-bit and no larger than `parameters_for` finds; the keys cover what it saw used."""
    setup = nn.setup(name)
    recorded, found = setup.parameters(), setup.search()
    assert recorded.security == "128-bit"
    assert recorded.n == found.n
    spare = 10 if setup.given_moduli else 2  # found for larger weights (src/schemes/exact/bfv_spec.cpp)
    assert found.log_q - 0.5 <= recorded.log_q <= found.log_q + spare
    assert len(recorded._core.spec.special) == len(found._core.spec.special)
    assert recorded.plain_moduli == found.plain_moduli == list(setup.plain_modulus)
    assert set(found.needs["rotations"]) <= set(setup.keys().get("rotations", ()))


@pytest.mark.parametrize("name", nn.SETUPS)
def test_plaintext_moduli_leave_a_margin(name: str) -> None:
    """Logits seen in training stay under a quarter of the plaintext modulus."""
    setup = nn.setup(name)
    assert math.prod(setup.plain_modulus) > 4 * setup.load().meta["max_abs_logit_training"]


@pytest.mark.parametrize(("name", "least"), MNIST)
def test_mnist_accuracy(name: str, least: float) -> None:
    """On the test images; the encrypted logits are the same integers."""
    images, labels = mnist("t10k")
    assert (nn.load(name).clear_logits(images).argmax(1) == labels).mean() >= least


@pytest.mark.parametrize("name", [name for name, _ in MNIST])
def test_logits_of_training_images_stay_in_range(name: str) -> None:
    """A sample of the training images, against what the weight file claims of all."""
    images, _ = mnist("train")
    network = nn.load(name)
    assert np.abs(network.clear_logits(images[::30])).max() <= network.meta["max_abs_logit_training"]


@pytest.mark.parametrize("name", [name for name, _ in MNIST])
def test_drawn_digits_are_read(name: str) -> None:
    """The ten pictures of the demo."""
    images = np.stack([strokes.drawn(digit) for digit in range(10)])
    assert nn.load(name).clear_logits(images).argmax(1).tolist() == list(range(10))


def test_digits_accuracy() -> None:
    """On the last 360 digits, which were not trained on."""
    pytest.importorskip("sklearn")
    from heliograph.cli.demo import held_out_digits

    images, labels = held_out_digits()
    assert len(images) == 360
    assert (nn.load("digits").clear_logits(images).argmax(1) == labels).mean() >= 0.93
