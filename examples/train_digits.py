"""Train the small digits network that ships with Heliograph, as an exact integer network.

Training
    Trains dense 64 to 32 -> square -> dense 32 to 10 on scikit-learn's 8x8 digits. First
    the weights are real; then they are rounded to a few integers (quantization-aware
    training with a straight-through gradient). The result is a .npz weight file of
    integers. Values 0..16 are quantized to 0..L by (value*L + 8)//16. There is no
    rescaling between the layers. See integer_network.py.

Data
    load_digits() returns 1,797 images in the order of their writers. The split is fixed:
    the last 360 images are for testing, the first 1,437 for training.

Selection
    Cross-validation has 6 folds of consecutive images among the 1,437, so that training
    and validation have mostly different writers. Every `--candidates` entry LEVELS:A,B
    (values become 0..LEVELS; |weight| <= A, B in the two layers) is trained on each fold.
    Candidates within `--tolerance` percentage points of the best accuracy are eligible.
    The one with the smallest |logit| is trained again on all 1,437 images, and written.
    Only --test reads the 360 test images, after the selection.

Use
    python train_digits.py --output digits.npz --test

    Needs numpy and scikit-learn; minutes on a laptop.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import integer_network as integer
from integer_network import Dense

LAYERS = (Dense("dense1", 64, 32), Dense("dense2", 32, 10))
TEST = 360  # images at the end of the data set
FOLDS = 6
FULL = 16  # the largest value of a pixel
SIDE = 8
CLASSES = 10
BATCH = 64
SMOOTHING = 0.05
CONTRAST = 1.4  # compensates the blur of resampling


@dataclass(frozen=True)
class Recipe:
    """One candidate: value levels, and the layers' weight limits."""

    levels: int
    limits: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Parse LEVELS:A,B."""
        levels, _, limits = text.partition(":")
        return cls(int(levels), tuple(int(limit) for limit in limits.split(",")))

    def __str__(self) -> str:
        return f"{self.levels}:{','.join(map(str, self.limits))}"


def augment(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rotate, scale, shear and shift each image a little, at random; then sharpen it."""

    def uniform(limit: float) -> np.ndarray:
        return rng.uniform(-limit, limit, (len(images), 1, 1))

    centre = (SIDE - 1) / 2
    down, across = np.mgrid[:SIDE, :SIDE] - centre
    angle, shear = uniform(0.2), uniform(0.15)
    sine, cosine = np.sin(angle), np.cos(angle)
    x = (1 + uniform(0.12)) * cosine * across + (shear - sine) * down + uniform(0.8) + centre
    y = sine * across + (1 + uniform(0.12)) * cosine * down + uniform(0.5) + centre
    blurred = sample(images, y, x)
    return np.clip((blurred - FULL / 2) * CONTRAST + FULL / 2, 0, FULL)


def sample(images: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Read each image at real coordinates, bilinearly; outside, it is 0."""
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    y, x = np.clip(y + 2, 0, SIDE + 2.999), np.clip(x + 2, 0, SIDE + 2.999)
    top, left = y.astype(int), x.astype(int)
    below, right = y - top, x - left
    number = np.arange(len(images))[:, None, None]
    upper = padded[number, top, left] * (1 - right) + padded[number, top, left + 1] * right
    lower = padded[number, top + 1, left] * (1 - right) + padded[number, top + 1, left + 1] * right
    return upper * (1 - below) + lower * below


class Network:
    """One network with real weights, or, once `quantised`, with integer ones.

    The latent weights `weights` are of order 1. A layer's real weight is `scales` times
    the latent one; once quantised, it is `scales * steps` times the integer
    clip(round(latent / step), -limit, limit).
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.recipe, self.quantised = recipe, False
        self.weights = [rng.standard_normal(layer.weight_shape) for layer in LAYERS]
        self.biases = [np.zeros(layer.outputs) for layer in LAYERS]
        self.scales, self.steps = [1.0, 1.0], [1.0, 1.0]

    def inputs(self, images: np.ndarray) -> np.ndarray:
        """Quantize images; 1 stands for a full pixel."""
        levels = self.recipe.levels
        return ((images.reshape(-1, SIDE * SIDE) * levels + FULL // 2) // FULL) / levels

    def integers(self, index: int) -> np.ndarray:
        """Return a layer's integer weights."""
        limit = self.recipe.limits[index]
        return np.clip(np.round(self.weights[index] / self.steps[index]), -limit, limit)

    def units(self) -> list[float]:
        """Return the integer value of 1.0 in each layer's output."""
        first = self.scales[0] * self.steps[0] / self.recipe.levels
        return [first, first**2 * self.scales[1] * self.steps[1]]

    def layer(self, index: int, x: np.ndarray) -> np.ndarray:
        """Apply one layer."""
        weight, bias = self.scales[index] * self.weights[index], self.biases[index]
        if self.quantised:
            unit = self.units()[index]
            weight = self.scales[index] * self.steps[index] * self.integers(index)
            bias = unit * np.round(bias / unit)
        return x @ weight.T + bias

    def initialise(self, images: np.ndarray) -> None:
        """Choose the scales so that every layer's output has standard deviation 1."""
        x = self.inputs(images)
        for index in range(len(LAYERS)):
            spread = float(self.layer(index, x).std())
            self.scales[index] = 1 / spread
            x = self.layer(index, x) ** 2

    def quantise(self) -> None:
        """Switch to integer weights, with the steps of least squared rounding error."""
        self.quantised = True
        for index, limit in enumerate(self.recipe.limits):
            full = float(np.abs(self.weights[index]).max()) / limit
            errors = {}
            for fraction in np.linspace(0.2, 1, 41):
                self.steps[index] = full * float(fraction)
                rounded = self.steps[index] * self.integers(index)
                errors[self.steps[index]] = float(((rounded - self.weights[index]) ** 2).sum())
            self.steps[index] = min(errors, key=lambda step: errors[step])

    def gradients(self, x: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of the smoothed cross-entropy by weights, then biases."""
        linear = self.layer(0, x)
        hidden = linear**2
        logits = self.layer(1, hidden)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        target = (1 - SMOOTHING) * np.eye(CLASSES)[labels] + SMOOTHING / CLASSES
        by_logits = (probabilities - target) / len(labels)
        real = self.weights[1]
        if self.quantised:
            real = self.steps[1] * self.integers(1)
        by_linear = 2 * linear * (by_logits @ (self.scales[1] * real))
        by_weights = [by_linear.T @ x * self.scales[0], by_logits.T @ hidden * self.scales[1]]
        return [*by_weights, by_linear.sum(axis=0), by_logits.sum(axis=0)]

    def parameters(self) -> integer.Parameters:
        """Return the integer weights and biases."""
        return {
            layer.name: (
                self.integers(index).astype(np.int64),
                np.round(self.biases[index] / self.units()[index]).astype(np.int64),
            )
            for index, layer in enumerate(LAYERS)
        }


def descend(
    network: Network, images: np.ndarray, labels: np.ndarray, epochs: int, rate: float, rng: np.random.Generator
) -> None:
    """Train with Adam; the rate falls to 0 along a cosine."""
    variables = [*network.weights, *network.biases]
    means = [np.zeros_like(v) for v in variables]
    squares = [np.zeros_like(v) for v in variables]
    steps, count = epochs * (len(images) // BATCH), 0
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(images) // BATCH * BATCH, BATCH):
            batch = order[start : start + BATCH]
            x = network.inputs(augment(images[batch], rng))
            now = rate * (1 + math.cos(math.pi * count / steps)) / 2
            count += 1
            moments = zip(variables, means, squares, network.gradients(x, labels[batch]), strict=True)
            for variable, mean, square, gradient in moments:
                mean += 0.1 * (gradient - mean)
                square += 0.01 * (gradient**2 - square)
                corrected = mean / (1 - 0.9**count)
                variable -= now * corrected / (np.sqrt(square / (1 - 0.99**count)) + 1e-8)


def train(recipe: Recipe, images: np.ndarray, labels: np.ndarray, args: argparse.Namespace) -> integer.Parameters:
    """Train one network: real weights first, then integer ones."""
    rng = np.random.default_rng(args.seed)
    network = Network(recipe, args.seed)
    network.initialise(images)
    descend(network, images, labels, args.epochs, args.rate, rng)
    network.quantise()
    descend(network, images, labels, args.epochs, args.rate / 3, rng)
    return network.parameters()


def evaluate(recipe: Recipe, parameters: integer.Parameters, images: np.ndarray) -> integer.Evaluation:
    """Run the integer network on images of values 0..16."""
    flat = images.astype(np.int64).reshape(len(images), -1)
    return integer.evaluate(LAYERS, parameters, integer.quantise(flat, recipe.levels, FULL))


def cross_validate(recipe: Recipe, images: np.ndarray, labels: np.ndarray, args: argparse.Namespace) -> tuple[float, int]:
    """Return the accuracy over all folds, and the largest |logit|."""
    hits, largest = 0, 0
    for fold in np.array_split(np.arange(len(images)), FOLDS):
        rest = np.setdiff1d(np.arange(len(images)), fold)
        parameters = train(recipe, images[rest], labels[rest], args)
        result = evaluate(recipe, parameters, images)
        hits += int((result.logits.argmax(axis=1) == labels)[fold].sum())
        largest = max(largest, result.max_logit)
    accuracy = hits / len(images)
    print(f"{recipe!s:10s} validation {accuracy:.4f}  max|logit| 2^{math.log2(largest):.2f}")
    return accuracy, largest


def choose(scores: dict[Recipe, tuple[float, int]], tolerance: float) -> Recipe:
    """Of the candidates close to the best accuracy, return the least |logit|."""
    best = max(accuracy for accuracy, _ in scores.values())
    close = [r for r, (accuracy, _) in scores.items() if accuracy >= best - tolerance / 100 - 1e-9]
    return min(close, key=lambda recipe: scores[recipe][1])


def print_summary(meta: dict, bounds: list[int]) -> None:
    """Print a summary of the written network."""
    print(f"digits, candidate {meta['recipe']}: {meta['accuracy']}")
    for name, entry in meta["weights"].items():
        print(f"  {name}: {entry}, largest value {meta['max_abs_linear'][name]}")
    largest = meta["max_abs_logit_training"]
    print(f"  max|logit| on the training images: {largest} = 2^{math.log2(largest):.2f}")
    print(f"  bound for any image: 2^{math.log2(bounds[-1]):.2f} (int64 holds 2^63)")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--output", type=Path, required=True, help="the .npz file to write")
    add("--candidates", nargs="+", metavar="LEVELS:A,B", help="input levels and weight limits (Selection, above)",
        default=["16:7,7", "16:3,7", "8:3,15", "8:2,7", "4:2,7", "4:1,3"])  # fmt: skip
    add("--tolerance", type=float, default=0.3, help="percentage points of validation accuracy (Selection, above)")
    add("--seed", type=int, default=1, help="seed of the first weights, the data order and the distortions")
    add("--epochs", type=int, default=150, help="epochs with real weights, and again with integer weights")
    add("--rate", type=float, default=0.1, help="learning rate")
    add("--test", action="store_true", help="test the chosen network, and write its accuracy to the file")
    return parser.parse_args()


def main() -> None:
    """Choose a candidate, train it, and write its weight file."""
    args = arguments()
    data = load_digits()
    images, labels = data.images[:-TEST], data.target[:-TEST]
    recipes = [Recipe.parse(text) for text in args.candidates]
    scores = {recipe: cross_validate(recipe, images, labels, args) for recipe in recipes}
    recipe = choose(scores, args.tolerance)
    parameters = train(recipe, images, labels, args)
    training = evaluate(recipe, parameters, images)
    test = None
    if args.test:
        result = evaluate(recipe, parameters, data.images[-TEST:])
        test = result.accuracy(data.target[-TEST:])
    meta = integer.describe(LAYERS, parameters, training) | {
        "network": "digits",
        "input": {
            "rule": "round(value*L/16)", "integer_rule": "(value*L + 8)//16",
            "levels": recipe.levels,
        },
        "accuracy": {
            "validation": scores[recipe][0],
            "validation_set": "6-fold cross-validation in the first 1437 images",
            "training": training.accuracy(labels),
            "test": test,
            "test_set": "last 360 images of scikit-learn's load_digits()",
        },
        "seed": args.seed,
        "script": "examples/train_digits.py",
        "recipe": str(recipe),
    }  # fmt: skip
    integer.save(args.output, LAYERS, parameters, meta)
    print_summary(meta, integer.worst_case(LAYERS, parameters, recipe.levels))


if __name__ == "__main__":
    main()
