"""Train HCNN-11, the CIFAR-10 network of Al Badawi et al. (2020), as an exact integer network.

Training
    Trains the network with real weights and batch normalization, folds the normalization
    into the weights, and balances the channels. Then training continues with weights
    rounded to a few bits (straight-through gradient). The result is a .npz weight file of
    integers. The integers and the image's pixels give the logits exactly, because there is
    no rescaling between the layers.

Network
    3x32x32 -> conv 32 -> square -> pool -> conv 64 -> square -> pool -> conv 128
            -> square -> pool -> dense 2048 to 256 -> dense 256 to 10
    Convolutions are 3x3 with a padding of one zero. "pool" adds the four values of each
    2x2 square. The dense layers read channel, row, column in C order. There is no
    activation between the two dense layers, as in the paper.

Data
    The data set is CIFAR-10 as JPEG files in --data: **quality 75, lossy**. Every printed
    or recorded accuracy is accuracy on CIFAR-10-JPEG-q75 unless stated otherwise. The
    50,000 training images are in the official order. The first 4,000 are used only for one
    accuracy on their original pixels, the last 5,000 for validation, the others for
    training. The test images are read once, at the end.

Selection
    `--runs` trainings with real weights, one seed each, run within the time limit; the
    best in validation continues. Then each of `--bits` [LEVELS:]A,B,C,D,E is trained:
    pixels become 0..LEVELS (default 255: unchanged), and the five layers' weights have A
    to E bits, including the sign. Candidates within `--tolerance` percentage points of the
    first one's validation accuracy are eligible. The one with the smallest |logit| is
    written, because a small logit allows a small plaintext modulus.

Exactness
    The logits have about 200 bits. The logits are computed modulo 31-bit primes whose product
    exceeds twice the worst case of any image. Each product and sum is exact in float64
    (below 2^53) or int64. The Chinese remainder theorem joins the residues; three images
    are compared with Python's integers.

Weight file
    NAME_weight (int8), NAME_bias and `meta` (JSON), as in integer_network.py. If a layer's
    biases exceed 64 bits, they are an array of decimal strings;
    `[int(v) for v in file["conv3_bias"]]` reads both forms.

Use
    python train_cifar10.py --data DIR        # about three minutes on an H100
    python train_cifar10.py --data DIR --quick    # a smoke test on a CPU

    Needs numpy, pillow and PyTorch. A seed reproduces the file on the same hardware and
    PyTorch, if the time limit is not reached.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable products

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import integer_network as integer
from cifar10_images import Augmentation, Data, Images, load_data, on_device
from integer_network import Convolution, Dense, Layer

DATA_SET = "CIFAR-10-JPEG-q75"  # the data set of all accuracies
SET_2020 = (2424833, 2654209, 2752513, 3604481, 3735553, 4423681, 4620289, 4816897, 4882433, 5308417)
WHITE = 255
MARGIN = 1.0  # bits of headroom above the logits of the training images
POOL = 4  # values that a pool adds
BITS = "8,8,8,8,8 6,6,6,6,6 5,5,5,5,5 4,5,5,5,5 4,4,4,4,4 3,4,4,4,4 3,3,4,4,4 3,3,3,3,4"  # the default of --bits
LAYERS: tuple[Layer, ...] = (
    Convolution("conv1", channels=3, size=32, filters=32, kernel=3, stride=1, padding=1),
    Convolution("conv2", channels=32, size=16, filters=64, kernel=3, stride=1, padding=1),
    Convolution("conv3", channels=64, size=8, filters=128, kernel=3, stride=1, padding=1),
    Dense("dense1", 2048, 256),
    Dense("dense2", 256, 10),
)

START = time.monotonic()


def elapsed() -> float:
    """Return the seconds since the program began."""
    return time.monotonic() - START


def say(text: str) -> None:
    """Print a line after the elapsed time."""
    print(f"[{elapsed():6.1f} s] {text}", flush=True)


def quantise(pixels: Tensor, levels: int) -> Tensor:
    """Map pixels 0..255 to the nearest integers 0..levels; 255 leaves them unchanged."""
    return pixels if levels == WHITE else ((pixels.int() * levels + WHITE // 2) // WHITE).to(torch.uint8)


def as_input(pixels: Tensor, levels: int) -> Tensor:
    """Return pixels as the real network's inputs: 0..1."""
    return (quantise(pixels, levels).float() / levels).contiguous(memory_format=torch.channels_last)


# --- the real network ---------------------------------------------------------------------


class RealNetwork(nn.Module):
    """HCNN-11 with real weights, normalizing before each square and after the first dense layer."""

    def __init__(self, dropout: float, offset: float) -> None:
        super().__init__()
        self.linear, self.norms = nn.ModuleList(), nn.ModuleList()
        for layer in LAYERS:
            if isinstance(layer, Convolution):
                linear: nn.Module = nn.Conv2d(layer.channels, layer.filters, layer.kernel, padding=layer.padding, bias=False)
                norm: nn.Module = nn.BatchNorm2d(layer.filters)
                nn.init.constant_(norm.weight, 0.5)
                nn.init.constant_(norm.bias, offset)  # (z + c)^2 is nearly linear at first
            else:
                last = layer is LAYERS[-1]
                linear = nn.Linear(layer.inputs, layer.outputs, bias=last)
                norm = nn.Identity() if last else nn.BatchNorm1d(layer.outputs)
            self.linear.append(linear)
            self.norms.append(norm)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (images, classes) of images 0..1."""
        for layer, linear, norm in zip(LAYERS, self.linear, self.norms, strict=True):
            if isinstance(layer, Convolution):
                x = functional.avg_pool2d(norm(linear(x)).square(), 2)
            else:
                x = norm(linear(self.dropout(x.flatten(1)) if layer.name == "dense1" else x))
        return x

    @torch.no_grad()
    def fold(self) -> list[tuple[Tensor, Tensor]]:
        """Return equivalent weights and biases, float64, without normalization and with pools that add."""
        folded = []
        for index, (linear, norm) in enumerate(zip(self.linear, self.norms, strict=True)):
            weight = linear.weight.double()
            if isinstance(norm, nn.Identity):
                bias = linear.bias.double()
            else:
                factor = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
                weight = weight * factor.view([-1] + [1] * (weight.dim() - 1))
                bias = norm.bias.double() - norm.running_mean.double() * factor
            if 1 <= index <= 3:  # layers after a pool
                weight = weight / POOL
            folded.append((weight.contiguous(), bias))
        return folded


def square_follows(index: int) -> bool:
    """Return whether layer `index` is squared and pooled."""
    return isinstance(LAYERS[index], Convolution)


def apply_layer(index: int, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply a layer of the folded network, and its square and pool."""
    if isinstance(LAYERS[index], Convolution):
        y = functional.conv2d(x, weight, bias, padding=1)
        return functional.avg_pool2d(y.square(), 2) * POOL
    return functional.linear(x.flatten(1), weight, bias)


def rescale(folded: list[tuple[Tensor, Tensor]], index: int, divisor: Tensor) -> None:
    """Divide the outputs of layer `index`, channel by channel, and compensate in the next layer."""
    weight, bias = folded[index]
    following, following_bias = folded[index + 1]
    undo = divisor.square() if square_follows(index) else divisor
    view = following.view(following.shape[0], len(divisor), -1) * undo[None, :, None]
    folded[index] = (weight / divisor.view([-1] + [1] * (weight.dim() - 1)), bias / divisor)
    folded[index + 1] = (view.view(following.shape), following_bias)


@torch.no_grad()
def balance(folded: list[tuple[Tensor, Tensor]], sample: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Equalize the largest input and output weights of the channels, and scale the outputs to order 1."""
    folded = list(folded)
    for _ in range(20):
        for index in range(len(folded) - 1):
            weight, following = folded[index][0], folded[index + 1][0]
            into = weight.abs().flatten(1).amax(dim=1)
            out = following.view(following.shape[0], len(weight), -1).abs().amax(dim=(0, 2))
            into, out = into.clamp(min=into.max() * 1e-3), out.clamp(min=out.max() * 1e-3)
            ratio = (into / out).pow(1 / 3 if square_follows(index) else 1 / 2)
            rescale(folded, index, ratio)
    for index in range(len(folded) - 1):
        x = sample.double()
        for earlier in range(index):
            x = apply_layer(earlier, x, *folded[earlier])
        weight, bias = folded[index]
        if square_follows(index):
            y = functional.conv2d(x, weight, bias, padding=1)
        else:
            y = functional.linear(x.flatten(1), weight, bias)
        rescale(folded, index, y.square().mean().sqrt().expand(len(bias)))
    return folded


# --- the integer network during training ------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """A candidate: pixel levels, and the layers' bits."""

    levels: int
    bits: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.levels}:{','.join(map(str, self.bits))}"

    @property
    def limits(self) -> list[int]:
        """Return the largest |weight| of each layer."""
        return [2 ** (bits - 1) - 1 for bits in self.bits]


def round_through(value: Tensor) -> Tensor:
    """Round; the gradient ignores the rounding."""
    return value + (value.round() - value).detach()


class RoundedNetwork(nn.Module):
    """The folded network with weights integer * step, where the step is learned."""

    def __init__(self, folded: list[tuple[Tensor, Tensor]], recipe: Recipe, dropout: float) -> None:
        super().__init__()
        self.recipe = recipe
        self.scales = [float(weight.std()) for weight, _ in folded]
        self.weights = nn.ParameterList([(w / s).float() for (w, _), s in zip(folded, self.scales, strict=True)])
        self.biases = nn.ParameterList([bias.float() for _, bias in folded])
        steps = [self.best_step(weight.detach(), limit) for weight, limit in zip(self.weights, recipe.limits, strict=True)]
        self.log_steps = nn.ParameterList([torch.tensor(math.log(s), device=folded[0][0].device) for s in steps])
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def best_step(weight: Tensor, limit: int) -> float:
        """Return the step of least squared rounding error."""
        full = float(weight.abs().max()) / limit
        steps = [full * fraction for fraction in np.linspace(0.2, 1, 41).tolist()]
        errors = [((weight / s).round().clamp(-limit, limit) * s - weight).square().sum() for s in steps]
        return steps[int(torch.stack(errors).argmin())]

    def integers(self, index: int) -> Tensor:
        """Return a layer's integer weights, with the gradient of the unrounded ones."""
        limit = self.recipe.limits[index]
        return round_through((self.weights[index] / self.log_steps[index].exp()).clamp(-limit, limit))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (images, classes) of quantized images 0..1."""
        for index, scale in enumerate(self.scales):
            weight = self.integers(index) * (self.log_steps[index].exp() * scale)
            x = apply_layer(index, self.dropout(x) if LAYERS[index].name == "dense1" else x, weight, self.biases[index])
        return x

    @torch.no_grad()
    def exact(self) -> IntegerNetwork:
        """Return the integers: weights, and biases in the unit of their layer's sums."""
        unit, weights, biases = 1 / self.recipe.levels, [], []
        for index, scale in enumerate(self.scales):
            unit *= math.exp(float(self.log_steps[index])) * scale
            weights.append(self.integers(index).round().cpu().numpy().astype(np.int8))
            biases.append([round(bias / unit) for bias in self.biases[index].double().tolist()])
            unit = unit * unit if square_follows(index) else unit
        return IntegerNetwork(weights, biases, self.recipe.levels)


# --- exact evaluation -----------------------------------------------------------------------


def is_prime(number: int) -> bool:
    """Return whether a number is prime, by Miller and Rabin's test, exact below 3,215,031,751 with these bases."""
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd >> twos, number)
        if power in (1, odd):
            continue
        if not any((power := power * power % number) == odd for _ in range(twos - 1)):
            return False
    return True


def primes_beyond(product: int) -> list[int]:
    """Return the largest primes below 2^31 whose product exceeds `product`."""
    primes: list[int] = []
    reach, candidate = 1, 2**31
    while reach <= product:
        candidate -= 1
        if is_prime(candidate):
            primes.append(candidate)
            reach *= candidate
    return primes


@dataclass
class IntegerNetwork:
    """The finished network: integers only."""

    weights: list[np.ndarray]  # int8
    biases: list[list[int]]
    levels: int

    def worst_case(self) -> list[int]:
        """Bound |weight * x + bias| of each layer over all images."""
        bounds, reach = [], self.levels
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            sums = np.abs(weight.reshape(len(bias), -1).astype(np.int64)).sum(axis=1).tolist()
            reach = max(total * reach + abs(offset) for total, offset in zip(sums, bias, strict=True))
            bounds.append(reach)
            reach = POOL * reach * reach if square_follows(index) else reach
        return bounds

    def matrices(self, device: torch.device) -> list[Tensor]:
        """Return the weights as float64 matrices (outputs, inputs)."""
        return [torch.from_numpy(w.reshape(len(w), -1).astype(np.float64)).to(device) for w in self.weights]

    @torch.no_grad()
    def residues(self, pixels: Tensor, prime: int, matrices: list[Tensor]) -> Tensor:
        """Logits modulo a prime below 2^31, int64.

        Sums have at most 2,048 terms of at most 127 * 2^31: below 2^49, so exact in float64.
        """
        x = quantise(pixels, self.levels).long()
        for index, (matrix, bias) in enumerate(zip(matrices, self.biases, strict=True)):
            assert matrix.shape[1] * 127 * prime < 2**53
            offset = torch.tensor([b % prime for b in bias], device=x.device)
            y = _multiply(index, matrix, x.double()).long() % prime
            y = (y + (offset[:, None] if y.dim() == 3 else offset)) % prime
            x = _pool(index, y * y % prime) % prime if square_follows(index) else y
        return x

    @torch.no_grad()
    def estimate(self, pixels: Tensor, matrices: list[Tensor]) -> tuple[Tensor, list[float]]:
        """Return logits in float64, correct to about 12 digits of the largest sum, and each layer's largest |value|."""
        x, largest = quantise(pixels, self.levels).double(), []
        for index, (matrix, bias) in enumerate(zip(matrices, self.biases, strict=True)):
            offset = torch.tensor([float(b) for b in bias], device=x.device, dtype=torch.float64)
            x = _multiply(index, matrix, x)
            x = x + (offset[:, None] if x.dim() == 3 else offset)
            largest.append(float(x.abs().max()))
            x = _pool(index, x * x) if square_follows(index) else x
        return x, largest

    def logits(self, images: Images) -> np.ndarray:
        """Return exact logits (images, classes): an object array of Python integers."""
        matrices = self.matrices(images.pixels.device)
        primes = primes_beyond(2 * self.worst_case()[-1])
        modulus = math.prod(primes)
        cofactors = [modulus // p * pow(modulus // p, -1, p) for p in primes]
        parts = []
        for pixels, _ in images.batches():
            total = np.zeros((len(pixels), len(self.biases[-1])), dtype=object)
            for prime, cofactor in zip(primes, cofactors, strict=True):
                total = total + self.residues(pixels, prime, matrices).cpu().numpy().astype(object) * cofactor
            total = total % modulus
            total = np.where(total > modulus // 2, total - modulus, total)
            about, _ = self.estimate(pixels, matrices)
            difference = np.abs(total.astype(np.float64) - about.cpu().numpy()).max()
            assert difference <= 1e-6 * float(about.abs().max()), "the exact and the approximate logits differ"
            parts.append(total)
        return np.concatenate(parts)

    def reference(self, pixels: np.ndarray) -> np.ndarray:
        """Return exact logits by integer_network.py's layers on Python's integers, which is slow."""
        x = integer.quantise(pixels, self.levels, WHITE).astype(object)
        for index, (layer, weight, bias) in enumerate(zip(LAYERS, self.weights, self.biases, strict=True)):
            if isinstance(layer, Convolution):  # np.pad would insert 64-bit zeros
                padded = np.full((*x.shape[:2], layer.size + 2, layer.size + 2), 0, dtype=object)
                padded[:, :, 1:-1, 1:-1] = x
                x, layer = padded, replace(layer, size=layer.size + 2, padding=0)
            x = layer.apply(x, weight.astype(object), np.array(bias, dtype=object))
            if square_follows(index):
                x = x * x
                x = x[:, :, ::2, ::2] + x[:, :, 1::2, ::2] + x[:, :, ::2, 1::2] + x[:, :, 1::2, 1::2]
        return x


def _multiply(index: int, matrix: Tensor, x: Tensor) -> Tensor:
    """Return a layer's products without bias in float64: (images, outputs[, places])."""
    if isinstance(LAYERS[index], Convolution):
        return torch.matmul(matrix, functional.unfold(x, 3, padding=1))
    return torch.matmul(x.flatten(1), matrix.T)


def _pool(index: int, x: Tensor) -> Tensor:
    """Add each 2x2 square of (images, channels, places)."""
    side = LAYERS[index].size  # type: ignore[union-attr]
    return x.view(len(x), -1, side // 2, 2, side // 2, 2).sum(dim=(3, 5))


def accuracy(logits: np.ndarray, labels: Tensor) -> float:
    """Return the fraction of images whose largest logit is the label's."""
    return float(np.mean([int(row.argmax()) == label for row, label in zip(logits, labels.tolist(), strict=True)]))


def largest(logits: np.ndarray) -> int:
    """Return the largest |logit|."""
    return int(np.abs(logits).max())


# --- training -------------------------------------------------------------------------------


@torch.no_grad()
def real_accuracy(model: nn.Module, data: Images, levels: int = WHITE) -> float:
    """Return the accuracy in full floating-point precision."""
    model.eval()
    precise(True)
    hits = sum(int((model(as_input(p, levels)).argmax(dim=1) == labels).sum()) for p, labels in data.batches())
    precise(False)
    return hits / len(data)


def precise(on: bool) -> None:
    """Set whether GPUs compute float32 products in full precision."""
    torch.backends.cuda.matmul.allow_tf32 = not on
    torch.backends.cudnn.allow_tf32 = not on


@dataclass(frozen=True)
class Plan:
    """Duration and learning rate of a training."""

    epochs: int
    rate: float
    deadline: float  # time to end by, in seconds of `elapsed`
    levels: int = WHITE
    warm_up: float = 0.1  # share of the time in which the rate rises


def train(
    model: nn.Module,
    groups: list[dict],
    augmentation: Augmentation,
    validation: Images,
    plan: Plan,
    args: argparse.Namespace,
    what: str,
) -> None:
    """Train; the rate rises and falls to 0 by the last epoch, or by the deadline if that comes first."""
    optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.99), fused=augmentation.padded.is_cuda)
    shares = [group["lr"] / plan.rate for group in optimizer.param_groups]
    batches = max(len(augmentation.labels) // args.batch, 1)
    begin, step, progress = elapsed(), 0, 0.0
    every = max(plan.epochs // 8, 1)
    total = torch.zeros((), device=augmentation.padded.device)
    for epoch in range(1, plan.epochs + 1):
        model.train()
        for pixels, labels in augmentation.epoch(args.batch):
            spent = (elapsed() - begin) / max(plan.deadline - begin, 1e-9)
            progress = min(max(step / (plan.epochs * batches), spent), 1)
            rise = min(progress / plan.warm_up, 1) if plan.warm_up else 1
            fall = 0.5 * (1 + math.cos(math.pi * max(progress - plan.warm_up, 0) / (1 - plan.warm_up)))
            for group, share in zip(optimizer.param_groups, shares, strict=True):
                group["lr"] = plan.rate * share * rise * fall
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(model(as_input(pixels, plan.levels)), labels, label_smoothing=args.smoothing)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            total += loss.detach()
            step += 1
        done = epoch == plan.epochs or progress >= 1
        if epoch % every == 0 or done:
            right = real_accuracy(model, validation, plan.levels)
            say(f"{what}: epoch {epoch:3d}  loss {float(total) / step:.4f} (mean so far)  validation {right:.4f}")
        if done:
            break


def train_real(data: Data, augmentation: Augmentation, args: argparse.Namespace, seed: int, deadline: float) -> RealNetwork:
    """A training with real weights."""
    torch.manual_seed(seed)
    augmentation.generator.manual_seed(seed)
    model = RealNetwork(args.dropout, args.offset).to(data.train.pixels.device, memory_format=torch.channels_last)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": args.decay}, {"params": vectors, "weight_decay": 0.0}]
    plan = Plan(args.epochs, args.rate, deadline)
    train(model, groups, augmentation, data.validation, plan, args, f"real, seed {seed}")
    return model


def train_best_real(data: Data, augmentation: Augmentation, args: argparse.Namespace) -> tuple[RealNetwork, float, int]:
    """Run up to the requested number of trainings within the time limit. Return the best, its accuracy and its seed."""
    best: tuple[RealNetwork, float, int] | None = None
    deadline = args.time_limit * 0.6
    took = 0.0
    for seed in range(args.seed, args.seed + args.runs):
        if best and elapsed() + 1.05 * took > deadline:
            say(f"no time for seed {seed}")
            break
        begin = elapsed()
        model = train_real(data, augmentation, args, seed, deadline)
        took = elapsed() - begin
        right = real_accuracy(model, data.validation)
        if best is None or right > best[1]:
            best = model, right, seed
    assert best is not None
    return best


@dataclass(frozen=True)
class Score:
    """A candidate with integer weights."""

    recipe: Recipe
    network: IntegerNetwork
    rounded: float  # validation accuracy of the exact integers before further training
    validation: float  # validation accuracy of the final integers
    log2_max_logit: float  # estimate for the training images


def score(network: IntegerNetwork, data: Data) -> tuple[float, float]:
    """Return the exact validation accuracy, and log2 of the largest |logit| on the training images, estimated."""
    matrices = network.matrices(data.train.pixels.device)
    reach = max(network.estimate(pixels, matrices)[1][-1] for pixels, _ in data.train.batches())
    return accuracy(network.logits(data.validation), data.validation.labels), math.log2(max(reach, 1))


def train_candidates(
    folded: list[tuple[Tensor, Tensor]], data: Data, augmentation: Augmentation, args: argparse.Namespace
) -> list[Score]:
    """Round the network by each entry of --bits, and continue the training of each."""
    scores = []
    for index, recipe in enumerate(args.bits):
        deadline = elapsed() + (args.time_limit * 0.88 - elapsed()) / (len(args.bits) - index)
        if deadline <= elapsed() and scores:
            say(f"no time for {recipe}")
            continue
        augmentation.generator.manual_seed(args.seed)
        torch.manual_seed(args.seed)
        model = RoundedNetwork(folded, recipe, args.dropout / 2).to(data.train.pixels.device)
        before = model.exact()
        rounded, reach = score(before, data)
        rest = [*model.weights, *model.biases]
        steps = list(model.log_steps)
        groups = [
            {"params": rest, "weight_decay": 0.0},
            {"params": steps, "weight_decay": 0.0, "lr": args.integer_rate / 10},
        ]
        plan = Plan(args.integer_epochs, args.integer_rate, deadline - 1, recipe.levels)
        if args.integer_epochs:
            train(model, groups, augmentation, data.validation, plan, args, f"integer, {recipe}")
        after = model.exact()
        right, reach_after = score(after, data)
        if right >= rounded:
            scores.append(Score(recipe, after, rounded, right, reach_after))
        else:
            scores.append(Score(recipe, before, rounded, rounded, reach))
        say(f"integer, {recipe}: validation {rounded:.4f} rounded, {right:.4f} trained; logits of {reach_after:.1f} bits")
    return scores


def choose(scores: list[Score], tolerance: float) -> Score:
    """Return the candidate of the smallest |logit| among those close to the first (or better).

    If none of these has logits that fit the 2020 set, the most accurate of those that fit, if any.
    """
    least = scores[0].validation - tolerance / 100 - 1e-9
    smallest = min((entry for entry in scores if entry.validation >= least), key=lambda entry: entry.log2_max_logit)
    fitting = [entry for entry in scores if entry.log2_max_logit < math.log2(math.prod(SET_2020) / 4) - MARGIN]
    return smallest if smallest in fitting or not fitting else max(fitting, key=lambda entry: entry.validation)


# --- export ---------------------------------------------------------------------------------


def check_reference(network: IntegerNetwork, images: Images, count: int = 3) -> None:
    """Compare the modular evaluation with Python's integers."""
    few = images[:count]
    expected = network.reference(few.pixels.cpu().numpy())
    assert (network.logits(few) == expected).all(), "the modular logits are wrong"


def save(path: Path, network: IntegerNetwork, meta: dict) -> None:
    """Write the weight file; biases that do not fit 64 bits as decimal strings."""
    arrays: dict[str, np.ndarray] = {}
    for layer, weight, bias in zip(LAYERS, network.weights, network.biases, strict=True):
        arrays[f"{layer.name}_weight"] = weight.reshape(layer.weight_shape)
        fits = max(map(abs, bias)) < 2**63
        arrays[f"{layer.name}_bias"] = (
            integer.narrow(np.array(bias, dtype=np.int64)) if fits else np.array([str(b) for b in bias])
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays, meta=np.array(json.dumps(meta, sort_keys=True)))


def primes_needed(max_logit: int) -> int:
    """Return the number of the 2020 set's primes, the largest first, whose product exceeds four times the logit."""
    for count in range(1, len(SET_2020) + 1):
        if math.prod(sorted(SET_2020)[-count:]) > 4 * max_logit:
            return count
    return len(SET_2020) + 1


def describe(chosen: Score, data: Data, args: argparse.Namespace) -> dict:
    """Evaluate the network exactly, on the training images only. Return most of `meta`."""
    network, everything = chosen.network, data.everything
    logits = network.logits(everything)
    matrices = network.matrices(everything.pixels.device)
    sizes = np.max([network.estimate(pixels, matrices)[1] for pixels, _ in everything.batches()], axis=0).tolist()
    held, kept = data.skipped, len(everything) - data.validated
    original = network.logits(data.original)
    parameters = {layer.name: (weight, np.zeros(0)) for layer, weight in zip(LAYERS, network.weights, strict=True)}
    statistics = integer.weight_statistics(LAYERS, parameters)
    names = [layer.name for layer in LAYERS]
    reach = largest(logits)
    assert reach >= 1
    return {
        "network": "hcnn11",
        "data_set": f"{DATA_SET}: CIFAR-10 re-encoded as JPEG, quality 75, 4:2:0; not the original pixels",
        "data_sha256": data.sha256,
        "layers": names,
        "structure": {
            name: {"padding": 1, "stride": 1, "square": True, "sum_pool": 2} if square_follows(index) else {"square": False}
            for index, name in enumerate(names)
        },
        "input": {
            "rule": "round(pixel*L/255)", "integer_rule": "(pixel*L + 127)//255", "levels": network.levels,
            "top": WHITE, "shape": [3, 32, 32], "channels": "RGB",
        },
        "bias_format": "integers; of a layer whose biases do not all fit 64 bits, decimal strings",
        "bias_bits": {n: max(map(abs, bias)).bit_length() + 1 for n, bias in zip(names, network.biases, strict=True)},
        "max_abs_logit_training": reach,  # largest value over all 50,000 images
        "log2_max_abs_logit_training": round(math.log2(reach), 3),
        "max_abs_logit_original": largest(original),
        "log2_max_abs_linear": {n: round(math.log2(max(s, 1)), 3) for n, s in zip(names, sizes, strict=True)},  # before squaring
        "log2_worst_case": round(math.log2(network.worst_case()[-1]), 3),
        "weight_bits": {name: entry["weight_bits"] for name, entry in statistics.items()},
        "weights": statistics,
        "accuracy": {
            "measured_on": DATA_SET,
            "training": accuracy(logits[held:kept], everything.labels[held:kept]),
            "validation": accuracy(logits[kept:], everything.labels[kept:]),
            "validation_rounded_only": chosen.rounded,
            "held_out": accuracy(logits[:held], everything.labels[:held]),
            "held_out_original_pixels": accuracy(original, data.original.labels),
            "test": None,
            "test_set": f"CIFAR-10 test, {len(data.test)} images, JPEG quality 75 ({DATA_SET})",
            "held_out_set": f"CIFAR-10 train, the first {held} images, not trained on",
        },
        "recipe": str(chosen.recipe),
        "script": "examples/train_cifar10.py",
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "training_configuration": {
            k: v for k, v in vars(args).items() if isinstance(v, int | float | bool)
        } | {"bits": [str(recipe) for recipe in args.bits]},
    }  # fmt: skip


def print_summary(meta: dict, scores: list[Score], chosen: Score) -> None:
    """Print the accuracies and sizes of all candidates and of the written network."""
    figures = meta["accuracy"]
    print(f"\n{meta['network']}: all accuracies on {DATA_SET} (JPEG, quality 75) unless said otherwise")
    print("  levels:bits           rounded only  trained on   max|logit| (validation accuracies)")
    for entry in scores:
        mark = " <- written" if entry is chosen else ""
        print(
            f"  {entry.recipe!s:22s} {entry.rounded:10.4f}  {entry.validation:10.4f}    2^{entry.log2_max_logit:.2f}{mark}"
        )
    print(f"  written: seed {meta['seed']}, {meta['recipe']}, exact integers, {meta['parameters']} weights")
    for name, title in (
        ("training", "training images"),
        ("validation_real_weights", "validation, real weights"),
        ("validation", "validation"),
        ("held_out", "4,000 held out"),
        ("held_out_original_pixels", "4,000 held out, ORIGINAL pixels"),
        ("test_real_weights", "test, real weights"),
        ("test", "test"),
    ):
        print(f"    {title:34s} {figures[name]:.4f}")
    print(
        f"  max|logit|: training 2^{meta['log2_max_abs_logit_training']}, test 2^{math.log2(meta['max_abs_logit_test']):.3f}"
    )
    room = math.log2(math.prod(SET_2020) / 4) - meta["log2_max_abs_logit_training"]
    print(f"  room below a quarter of the ten primes of 2020: {room:.1f} bits")
    print(f"  primes of that set needed, the largest first: {primes_needed(meta['max_abs_logit_training'])}")
    print(f"  sums of each layer, log2: {meta['log2_max_abs_linear']}; any image's logits: {meta['log2_worst_case']}")


# --- command line ---------------------------------------------------------------------------


def parse_recipe(text: str) -> Recipe:
    """Parse [LEVELS:]A,B,C,D,E."""
    levels, _, bits = text.rpartition(":")
    recipe = Recipe(int(levels or WHITE), tuple(int(b) for b in bits.split(",")))
    if len(recipe.bits) != len(LAYERS) or not all(2 <= b <= 8 for b in recipe.bits) or not 1 <= recipe.levels <= WHITE:
        raise argparse.ArgumentTypeError(f"{text} is not [LEVELS:]A,B,C,D,E with 2 to 8 bits")
    return recipe


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of train_jpeg.npz, test_jpeg.npz, train_first4000_original.npz")
    add("--out", type=Path, help="the .npz file to write (default: python/heliograph/nn/weights/hcnn11.npz)")
    add("--all-candidates", type=Path, metavar="DIR", help="folder for all candidates, without test accuracy")
    add("--bits", type=parse_recipe, nargs="+", metavar="[LEVELS:]A,B,C,D,E", help=f"default: {BITS}")
    add("--tolerance", type=float, default=0.3, help="percentage points of validation accuracy (Selection, above)")
    add("--runs", type=int, default=2, help="number of trainings with real weights")
    add("--seed", type=int, default=1, help="seed of the first run; each further run adds 1")
    add("--time-limit", type=float, default=165, help="approximate total seconds; trainings are shortened to fit")
    add("--epochs", type=int, default=120, help="epochs with real weights")
    add("--integer-epochs", type=int, default=12, help="epochs with integer weights, for each candidate")
    add("--rate", type=float, default=4e-3, help="learning rate with real weights")
    add("--integer-rate", type=float, default=1e-3, help="learning rate with integer weights")
    add("--decay", type=float, default=0.05, help="weight decay with real weights")
    add("--dropout", type=float, default=0.3, help="dropout before the dense layers; half of it with integer weights")
    add("--offset", type=float, default=0.5, help="initial value of the biases of batch normalization")
    add("--blot", type=int, default=8, help="side in pixels of the square masked in each training image; 0: none")
    add("--smoothing", type=float, default=0.1, help="label smoothing")
    add("--clip", type=float, default=1.0, help="norm to which the gradient is clipped")
    add("--batch", type=int, default=512, help="images in a training step")
    add("--quick", action="store_true", help="a few hundred images and one epoch, to test that the program runs")
    args = parser.parse_args()
    args.bits = args.bits or [parse_recipe(text) for text in BITS.split()]
    if args.quick:
        args.epochs, args.integer_epochs, args.runs, args.batch, args.bits = 1, 1, 1, 100, args.bits[:2]
        args.out = args.out or Path(tempfile.gettempdir()) / "hcnn11-quick.npz"
    args.out = args.out or Path(__file__).resolve().parents[1] / "python/heliograph/nn/weights/hcnn11.npz"
    return args


def main() -> None:
    """Train all candidates, choose one, evaluate it, and write its weight file."""
    args = arguments()
    on_cpu, _ = load_data(args.data, args.quick)
    say(f"decoded {len(on_cpu.everything)} + {len(on_cpu.test)} images, {DATA_SET}")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precise(False)
    data = on_device(on_cpu, device)
    augmentation = Augmentation(data.train, args.blot, torch.Generator(device))

    model, real, seed = train_best_real(data, augmentation, args)
    say(f"real weights: seed {seed}, validation {real:.4f}")
    precise(True)
    folded = balance(model.eval().fold(), as_input(data.train.pixels[:1000], WHITE))
    precise(False)
    scores = train_candidates(folded, data, augmentation, args)
    chosen = choose(scores, args.tolerance)
    say(f"chosen: {chosen.recipe}; now exactly, on all images")

    extra = {"seed": seed, "parameters": sum(w.size for w in chosen.network.weights)}
    first = {
        "network": "hcnn11",
        "recipe": str(chosen.recipe),
        "preliminary": True,
        "input": {"levels": chosen.network.levels},
    }
    save(args.out, chosen.network, first | extra)  # kept in case a step below fails
    check_reference(chosen.network, data.validation)
    say("three images equal Python's integers")
    meta = describe(chosen, data, args) | extra
    test = chosen.network.logits(data.test)
    meta["max_abs_logit_test"] = largest(test)
    meta["accuracy"] |= {
        "validation_real_weights": real,
        "test_real_weights": real_accuracy(model, data.test),
        "test": accuracy(test, data.test.labels),
    }
    save(args.out, chosen.network, meta)
    print_summary(meta, scores, chosen)
    say(f"wrote {args.out}")
    reach = max(meta[f"max_abs_logit_{part}"] for part in ("training", "test", "original"))
    if 4 * reach >= math.prod(SET_2020):
        print("WARNING: the logits do not fit the ten primes of 2020: give fewer --bits")
    if args.all_candidates:
        for entry in scores:
            name = f"hcnn11-{str(entry.recipe).replace(':', '-').replace(',', '')}.npz"
            save(args.all_candidates / name, entry.network, describe(entry, data, args) | extra)
        say(f"wrote all candidates to {args.all_candidates}")


if __name__ == "__main__":
    main()
