"""Train the MNIST networks that ship with Heliograph, as exact integer networks.

Training
    Trains one of a few small networks whose only activation is x -> x * x. First the
    weights are real; then they are rounded to a few integers (quantization-aware training
    with a straight-through gradient). The result is a .npz weight file of integers. There
    is no rescaling between the layers: the file's integers and the image's quantized
    pixels give the logits exactly. See integer_network.py.

Networks
    hcnn5         conv 5 filters 5x5/2 -> square -> conv 50 filters 5x5/2 over all five
                  maps -> square -> dense 800 to 10
    hcnn5-paper   the same, but filter f of the second convolution reads map f // 10 only
    mnist-packed  conv 5 filters 5x5/2, padding 1 -> square -> dense 845 to 100 -> square
                  -> dense 100 to 10
    mnist-small   the middle 26x26 pixels: conv 10 filters 5x5/2 -> square -> dense 1210 to 10

Selection
    10,000 of the 60,000 training images, drawn with the seed, are held out. Candidates
    are trained together, as one batched program: every `--candidates` entry LEVELS:A,B,C
    (pixels become 0..LEVELS; |weight| <= A, B, C in the three layers), each with `--seeds`
    initializations. Candidates within `--tolerance` percentage points of the best held-out
    accuracy are eligible. The one with the smallest |logit| over all 60,000 training
    images is written, because a small logit allows a small plaintext modulus. Only
    evaluate_mnist.py reads the test images, afterwards.

Use
    python train_mnist.py --network hcnn5 --output hcnn5.npz \\
        --images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz

    Needs numpy and PyTorch; takes minutes on a GPU, hours on a CPU (use fewer candidates
    and epochs there; OMP_NUM_THREADS=1 is faster for small networks). A seed reproduces
    the file on the same hardware and PyTorch. Elsewhere floating-point rounding leads to
    another network of the same quality.
    The shipped mnist-small took five minutes of one core: --seeds 1 --epochs 25
    --integer-epochs 35.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable products

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import integer_network as integer
from integer_network import WHITE, Convolution, Layer, read_idx

# |logit| must be below a quarter of this prime
PLAINTEXT_PRIME = dict.fromkeys(integer.MNIST_NETWORKS, 5522259017729) | {"mnist-small": 557057}
HELD_OUT = 10000
RUNS = 32  # see convolve
CANDIDATES = {  # the default of --candidates, for each network
    "hcnn5": "3:2,2,7 3:2,2,15 3:2,3,15 2:3,2,15 2:2,2,15",
    "hcnn5-paper": "4:3,3,15 3:3,3,15 3:2,3,15 3:2,2,15 2:3,3,15",
    "mnist-packed": "2:1,1,1 2:1,1,3 2:1,1,7 2:2,1,3 1:1,1,3",
    "mnist-small": "2:3,7 3:3,7 2:3,15",
}
TOLERANCE = {"hcnn5": 0.03, "hcnn5-paper": 0.05, "mnist-packed": 0.15, "mnist-small": 0.05}  # default of --tolerance
CONTRAST = 1.45  # compensates the blur of resampling: preserves the frequency of each gray level


@dataclass(frozen=True)
class Recipe:
    """One candidate: pixel levels, the layers' weight limits, and its seed."""

    levels: int
    limits: tuple[int, ...]
    seed: int

    def __str__(self) -> str:
        return f"{self.levels}:{','.join(map(str, self.limits))} seed {self.seed}"


@dataclass(frozen=True)
class Images:
    """Images as (number, 28, 28) float pixels 0..255, with their labels."""

    pixels: Tensor
    labels: Tensor


# --- data ---------------------------------------------------------------------------------


def on_device(pixels: np.ndarray, labels: np.ndarray, device: torch.device) -> Images:
    """Copy images to the device."""
    as_tensor = torch.from_numpy
    return Images(as_tensor(pixels.astype(np.float32)).to(device), as_tensor(labels.astype(np.int64)).to(device))


def augment(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate, scale, shear and shift each image a little, at random; then sharpen it."""

    def uniform(limit: float) -> Tensor:
        sample = torch.rand(len(pixels), device=pixels.device, generator=generator)
        return (2 * sample - 1) * limit

    angle, shear = uniform(math.radians(11)), uniform(0.12)
    width, height = 1 + uniform(0.1), 1 + uniform(0.1)
    row1 = torch.stack([angle.cos() * width, shear - angle.sin(), uniform(0.12)], dim=1)
    row2 = torch.stack([angle.sin(), angle.cos() * height, uniform(0.12)], dim=1)
    theta = torch.stack([row1, row2], dim=1)
    images = pixels.unsqueeze(1)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    blurred = functional.grid_sample(images, grid, align_corners=False).squeeze(1)
    return ((blurred - WHITE / 2) * CONTRAST + WHITE / 2).clamp(0, WHITE)


def quantise_pixels(pixels: Tensor, levels: Tensor) -> Tensor:
    """Return (candidate, image, row, column) integers: (pixel * L + 127) // 255."""
    levels = levels.view(-1, 1, 1, 1)
    return torch.floor((pixels * levels + WHITE // 2) / WHITE)


# --- the candidates: several networks of one shape, batched along the first axis -----------


def convolve(layer: Convolution, x: Tensor, weight: Tensor) -> Tensor:
    """Apply each candidate's filters to its own maps, as one batched matrix product."""
    count, batch, groups = x.shape[0], x.shape[1], layer.groups
    kernel, stride, side = layer.kernel, layer.stride, layer.out_size
    runs = math.gcd(batch, RUNS)  # shorter sums in the gradient, for more parallelism
    x = x.view(count, batch, layer.channels, layer.size, layer.size)
    if layer.padding:
        x = functional.pad(x, [layer.padding] * 4)
    if x.device.type == "cpu":  # several times faster on a CPU
        y = functional.conv2d(x.transpose(0, 1).flatten(1, 2), weight.flatten(0, 1), stride=stride, groups=count * groups)
        return y.unflatten(1, (count, -1)).transpose(0, 1).flatten(3)
    windows = x.unfold(3, kernel, stride).unfold(4, kernel, stride)
    windows = windows.unflatten(2, (groups, -1)).permute(0, 2, 1, 4, 5, 3, 6, 7)
    patches = windows.reshape(count * groups, runs, batch // runs * side**2, -1)
    matrices = weight.view(count * groups, 1, layer.filters // groups, -1).transpose(2, 3)
    y = torch.matmul(patches, matrices).view(count, groups, batch, side**2, -1)
    return y.permute(0, 2, 1, 4, 3).reshape(count, batch, layer.filters, side**2)


def linear(layer: Layer, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply one linear layer of every candidate."""
    if isinstance(layer, Convolution):
        return convolve(layer, x, weight) + bias[:, None, :, None]
    return torch.bmm(x.flatten(2), weight.transpose(1, 2)) + bias[:, None, :]


def round_through(value: Tensor) -> Tensor:
    """Round; the gradient ignores the rounding."""
    return value + (value.round() - value).detach()


class Candidates(torch.nn.Module):
    """Networks of one shape, one for each recipe, with real or integer weights.

    A latent weight w of order 1 stands for the real weight scale * w; once `quantised`,
    for the integer clamp(round(w / step), -limit, limit), worth scale * step each. A
    layer's `scale` is a constant of the initialization, its `step` is learned.
    """

    def __init__(self, layers: tuple[Layer, ...], recipes: list[Recipe]) -> None:
        super().__init__()
        self.layers, self.recipes, self.quantised = layers, recipes, False
        count = len(recipes)
        generators = [torch.Generator().manual_seed(recipe.seed) for recipe in recipes]
        self.weights, self.biases = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        self.log_steps = torch.nn.ParameterDict()
        self.register_buffer("levels", torch.tensor([float(r.levels) for r in recipes]))
        self.register_buffer("limits", torch.tensor([r.limits for r in recipes]).float())
        self.register_buffer("scales", torch.ones(count, len(layers)))
        for layer in layers:
            normal = [torch.randn(layer.weight_shape, generator=g) for g in generators]
            self.weights[layer.name] = torch.nn.Parameter(torch.stack(normal))
            self.biases[layer.name] = torch.nn.Parameter(torch.zeros(count, layer.outputs))
            self.log_steps[layer.name] = torch.nn.Parameter(torch.zeros(count))

    def integers(self, index: int) -> Tensor:
        """Return a layer's integer weights, with the gradient of the unrounded ones."""
        name = self.layers[index].name
        weight = self.weights[name]
        shape = (-1,) + (1,) * (weight.dim() - 1)
        limit, step = self.limits[:, index].view(shape), self.log_steps[name].exp().view(shape)
        return round_through(torch.minimum(torch.maximum(weight / step, -limit), limit))

    def real(self, index: int, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a layer's real weights and biases, and the integer value of 1.0 in its output."""
        layer = self.layers[index]
        weight, bias = self.weights[layer.name], self.biases[layer.name]
        scale = self.scales[:, index]
        if self.quantised:
            scale = scale * self.log_steps[layer.name].exp()
            weight, unit = self.integers(index), (unit * scale).detach()
            bias = round_through(bias / unit[:, None]) * unit[:, None]
        return weight * scale.view((-1,) + (1,) * (weight.dim() - 1)), bias, unit

    def forward(self, pixels: Tensor) -> Tensor:
        """Return real logits, (candidate, image, class)."""
        x = quantise_pixels(pixels, self.levels) / self.levels.view(-1, 1, 1, 1)
        unit = 1 / self.levels
        for index, layer in enumerate(self.layers):
            if index:
                x, unit = x * x, unit * unit
            weight, bias, unit = self.real(index, unit)
            x = linear(layer, x, weight, bias)
        return x

    @torch.no_grad()
    def initialise(self, pixels: Tensor) -> None:
        """Choose the scales so that every layer's output has standard deviation 1."""
        x = quantise_pixels(pixels, self.levels) / self.levels.view(-1, 1, 1, 1)
        for index, layer in enumerate(self.layers):
            weight, bias, _ = self.real(index, self.levels)
            x = linear(layer, x * x if index else x, weight, bias)
            spread = x.flatten(1).std(dim=1)
            self.scales[:, index] = 1 / spread
            x = x / spread.view((-1,) + (1,) * (x.dim() - 1))

    @torch.no_grad()
    def quantise(self) -> None:
        """Switch to integer weights, with the steps of least squared rounding error."""
        self.quantised = True
        for index, layer in enumerate(self.layers):
            weight, log_step = self.weights[layer.name].flatten(1), self.log_steps[layer.name]
            full = (weight.abs().amax(dim=1) / self.limits[:, index]).log()
            best, least = full.clone(), torch.full_like(full, math.inf)
            for fraction in torch.linspace(0.2, 1, 41).tolist():
                log_step.copy_(full + math.log(fraction))
                rounded = self.integers(index).flatten(1) * log_step.exp()[:, None]
                error = (rounded - weight).square().sum(dim=1)
                best = torch.where(error < least, log_step, best)
                least = torch.minimum(error, least)
            log_step.copy_(best)

    @torch.no_grad()
    def exact(self) -> list[tuple[Tensor, Tensor]]:
        """Return every layer's integer weights and biases, in float64."""
        parameters, unit = [], 1 / self.levels.double()
        for index, layer in enumerate(self.layers):
            step = self.scales[:, index].double() * self.log_steps[layer.name].double().exp()
            unit = (unit * unit if index else unit) * step
            bias = (self.biases[layer.name].double() / unit[:, None]).round()
            parameters.append((self.integers(index).double().round(), bias))
        return parameters


@torch.no_grad()
def exact_logits(model: Candidates, pixels: Tensor) -> Tensor:
    """Return the integer networks' logits; float64 holds them exactly below 2^53."""
    x = quantise_pixels(pixels, model.levels).double()
    for index, (layer, parameters) in enumerate(zip(model.layers, model.exact(), strict=True)):
        x = linear(layer, x * x if index else x, *parameters)
    return x


# --- training -----------------------------------------------------------------------------


def for_each_batch(
    data: Images,
    args: argparse.Namespace,
    epochs: int,
    step: Callable[[Tensor, Tensor], None],
    after_epoch: Callable[[int], None] = lambda epoch: None,
) -> None:
    """Call `step` on shuffled, augmented batches of every epoch."""
    device = data.labels.device
    generator = torch.Generator(device).manual_seed(args.seed)
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(data.labels), device=device, generator=generator)
        for batch in order[: len(order) // args.batch * args.batch].split(args.batch):
            step(augment(data.pixels[batch], generator), data.labels[batch])
        after_epoch(epoch)


def clip_gradients(model: Candidates, limit: float = 1.0) -> None:
    """Clip each candidate's gradient separately, so that candidates stay independent."""
    gradients = [p.grad.flatten(1) for p in model.parameters() if p.grad is not None and p.dim() > 1]
    norm = torch.cat(gradients, dim=1).norm(dim=1)
    factor = (limit / (norm + 1e-6)).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(factor[:, None])


def train(model: Candidates, data: Images, held_out: Images, args: argparse.Namespace, epochs: int, rate: float) -> None:
    """Train all candidates for some epochs; the rate rises briefly, then falls to 0."""
    slow = list(model.log_steps.values())
    rest = list(model.weights.values()) + list(model.biases.values())
    groups = [{"params": rest}, {"params": slow}]
    optimizer = torch.optim.Adam(groups, lr=rate, betas=(0.9, 0.99), fused=True)
    steps = max(epochs * (len(data.labels) // args.batch), 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [rate, rate / 10], total_steps=steps, pct_start=0.1, cycle_momentum=False
    )

    def step(pixels: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(pixels)
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)), label_smoothing=0.05)
        loss = loss + args.logit_penalty * logits.square().mean()
        (len(logits) * loss).backward()  # the sum of the candidates' own losses
        clip_gradients(model)
        optimizer.step()
        schedule.step()

    start = time.monotonic()

    def report(epoch: int) -> None:
        if epoch % 10 == 0 or epoch == epochs:
            accuracy = real_accuracy(model, held_out)
            print(
                f"epoch {epoch:4d}  {time.monotonic() - start:6.1f} s  held out: "
                f"mean {accuracy.mean():.4f}  best {accuracy.max():.4f}",
                flush=True,
            )

    for_each_batch(data, args, epochs, step, report)


@torch.no_grad()
def real_accuracy(model: Candidates, data: Images) -> Tensor:
    """Return each candidate's accuracy, in floating point."""
    hits = [
        (model(pixels).argmax(dim=2) == labels).sum(dim=1)
        for pixels, labels in zip(data.pixels.split(1000), data.labels.split(1000), strict=True)
    ]
    return torch.stack(hits).sum(dim=0).double() / len(data.labels)


# --- choice and export --------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """A candidate's held-out accuracy, and its largest |logit| on all training images."""

    index: int
    recipe: Recipe
    real: float
    integer: float
    max_logit: float


def score(model: Candidates, real: Tensor, everything: Images, held_out: Images) -> list[Score]:
    """Score every candidate's integer network."""
    largest = torch.zeros(len(model.recipes), dtype=torch.float64, device=real.device)
    for pixels in everything.pixels.split(1000):
        largest = torch.maximum(largest, exact_logits(model, pixels).abs().amax(dim=(1, 2)))
    hits = torch.zeros_like(largest)
    pairs = zip(held_out.pixels.split(1000), held_out.labels.split(1000), strict=True)
    for pixels, labels in pairs:
        hits += (exact_logits(model, pixels).argmax(dim=2) == labels).sum(dim=1)
    accuracy = hits / len(held_out.labels)
    rows = zip(model.recipes, real.tolist(), accuracy.tolist(), largest.tolist(), strict=True)
    return [Score(index, *row) for index, row in enumerate(rows)]


def choose(scores: list[Score], tolerance: float, prime: int) -> Score:
    """Of the usable candidates close to the best accuracy, return the least |logit|."""
    scores = [entry for entry in scores if entry.max_logit < prime / 4]
    best = max(entry.integer for entry in scores)
    close = [entry for entry in scores if entry.integer >= best - tolerance / 100 - 1e-9]
    return min(close, key=lambda entry: entry.max_logit)


def print_scores(scores: list[Score]) -> None:
    """Print one line for each candidate."""
    for entry in scores:
        print(
            f"{entry.recipe!s:24s} held out: real {entry.real:.4f} integer {entry.integer:.4f}"
            f"  max|logit| 2^{math.log2(entry.max_logit):.2f}"
        )


def to_numpy(model: Candidates, index: int) -> integer.Parameters:
    """Return one candidate's integer weights and biases."""
    return {
        layer.name: tuple(t[index].cpu().numpy().astype(np.int64) for t in pair)
        for layer, pair in zip(model.layers, model.exact(), strict=True)
    }


def export(model: Candidates, chosen: Score, args: argparse.Namespace) -> None:
    """Check the chosen network in integer arithmetic, write it, report it."""
    layers, levels = model.layers, chosen.recipe.levels
    parameters = to_numpy(model, chosen.index)
    pixels = read_idx(args.images)
    training = integer.evaluate(layers, parameters, integer.quantise(pixels, levels, WHITE))
    assert training.max_logit == chosen.max_logit
    assert training.max_logit < PLAINTEXT_PRIME[args.network] / 4
    accuracy: dict[str, float | str | None] = {
        "validation": chosen.integer,
        "validation_real_weights": chosen.real,
        "training": training.accuracy(read_idx(args.labels)),
        "test": None,
        "test_set": "MNIST test, 10000",
    }
    meta = integer.describe(layers, parameters, training) | {
        "network": args.network,
        "input": {
            "rule": "round(pixel*L/255)", "integer_rule": "(pixel*L + 127)//255", "levels": levels,
        },
        "accuracy": accuracy,
        "seed": chosen.recipe.seed,
        "script": "examples/train_mnist.py",
        "recipe": str(chosen.recipe),
        "torch": torch.__version__,
    }  # fmt: skip
    integer.save(args.output, layers, parameters, meta)
    print_summary(meta, integer.worst_case(layers, parameters, levels))


def print_summary(meta: dict, bounds: list[int]) -> None:
    """Print a summary of the written network."""
    largest = meta["max_abs_logit_training"]
    print(f"{meta['network']}, candidate {meta['recipe']}: {meta['accuracy']}")
    for name, entry in meta["weights"].items():
        print(f"  {name}: {entry}, largest value {meta['max_abs_linear'][name]}")
    print(f"  max|logit| on the training images: {largest} = 2^{math.log2(largest):.2f}")
    prime = PLAINTEXT_PRIME[meta["network"]]
    print(f"  margin t / (4 max|logit|) with t = {prime}: {prime / (4 * largest):.2f}")
    print(f"  bound for any image: 2^{math.log2(bounds[-1]):.2f} (int64 holds 2^63)")


# --- command line -------------------------------------------------------------------------


def parse_recipe(text: str) -> tuple[int, tuple[int, ...]]:
    """Parse LEVELS:A,B,C."""
    levels, _, limits = text.partition(":")
    return int(levels), tuple(int(limit) for limit in limits.split(","))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--network", choices=integer.MNIST_NETWORKS, required=True)
    add("--images", type=Path, required=True, help="MNIST training images, IDX or IDX.gz")
    add("--labels", type=Path, required=True, help="MNIST training labels")
    add("--output", type=Path, required=True, help="the .npz file to write")
    add(
        "--candidates",
        nargs="+",
        metavar="LEVELS:A,B,C",
        help="numbers of grey levels of the input, each with limits of the weights (see Selection in this file)",
    )
    add("--seeds", type=int, default=5, help="initializations of each candidate")
    add("--seed", type=int, default=1, help="seed of the data order, and the first of the --seeds seeds")
    add("--tolerance", type=float, help="percentage points of held-out accuracy (see Selection in this file)")
    add("--epochs", type=int, default=70, help="epochs with real weights")
    add("--integer-epochs", type=int, default=150, help="epochs with integer weights")
    add("--rate", type=float, default=0.1, help="learning rate with real weights")
    add("--integer-rate", type=float, default=0.015, help="learning rate with integer weights")
    add("--logit-penalty", type=float, default=1e-3, help="weight of the mean squared logit")
    add("--batch", type=int, default=512, help="images in a training step")
    args = parser.parse_args()
    if args.candidates is None:
        args.candidates = CANDIDATES[args.network].split()
    if args.tolerance is None:
        args.tolerance = TOLERANCE[args.network]
    return args


def main() -> None:
    """Train all candidates, choose one, and write its weight file."""
    args = arguments()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    everything = on_device(read_idx(args.images), read_idx(args.labels), device)
    shuffle = torch.Generator().manual_seed(args.seed)
    order = torch.randperm(len(everything.labels), generator=shuffle).to(device)
    kept, held = order[HELD_OUT:], order[:HELD_OUT]
    data = Images(everything.pixels[kept], everything.labels[kept])
    held_out = Images(everything.pixels[held], everything.labels[held])

    candidates = [parse_recipe(text) for text in args.candidates]
    recipes = [Recipe(*c, args.seed + s) for c in candidates for s in range(args.seeds)]
    model = Candidates(integer.MNIST_NETWORKS[args.network], recipes).to(device)
    model.initialise(data.pixels[:1000])
    train(model, data, held_out, args, args.epochs, args.rate)
    real = real_accuracy(model, held_out)
    model.quantise()
    train(model, data, held_out, args, args.integer_epochs, args.integer_rate)
    scores = score(model, real, everything, held_out)
    print_scores(scores)
    export(model, choose(scores, args.tolerance, PLAINTEXT_PRIME[args.network]), args)


if __name__ == "__main__":
    main()
