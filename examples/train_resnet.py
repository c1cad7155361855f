"""Train ResNets for CIFAR-10, with ReLU or with squares, and write them as ONNX files that `hg.ml.compile` reads.

Networks
    resnet20          ReLU; He et al. (2016), section 4.2, with 1x1 convolutions as shortcuts of another shape
    resnet20-square   each activation is a polynomial of degree 2 per channel. Its terms of degree 1 and 2 are normalized
                      apart, as in AESPA (Park et al., 2022). The file has the folded form: scale, square, scale.
    resnet18          ReLU; the form for ImageNet: a convolution of 7 x 7 with stride 2, a maximum pool of 3 x 3 with stride 2, and
                      four stages of 64 to 512 channels. The images have 64 x 64 pixels, each pixel repeated in 2 x 2.

Data
    CIFAR-10 as JPEG files in --data (quality 75, lossy), as examples/train_cifar10.py reads it. All accuracies are of
    CIFAR-10-JPEG-q75. The first 4,000 and the last 5,000 training images are not used for training.

File
    NAME.onnx: one input "image" [1, 3, height, width], normalized by the mean and deviation in the file's metadata, and one
    output "logits" [1, 10]. Weights are stored as float16 and converted by Cast nodes; those of resnet18 as float32 (45 MB, too
    large for the repository). NAME.json: accuracies, settings.

Use
    python train_resnet.py --data DIR --network resnet20 --out resnet20.onnx     # two minutes on an H100
    python train_resnet.py --data DIR --network resnet18 --out resnet18.onnx     # some minutes on an H100

    Needs numpy, pillow, onnx and PyTorch. A seed gives the same file on the same hardware and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable products

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from cifar10_images import Augmentation, Images, load_data, on_device

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
WIDTHS = {"resnet20": (16, 32, 64), "resnet20-square": (16, 32, 64), "resnet18": (64, 128, 256, 512)}
BLOCKS = {"resnet20": 3, "resnet20-square": 3, "resnet18": 2}


class Square(nn.Module):
    """A polynomial of degree 2 for each channel: Hermite terms with a batch normalization each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(channels, affine=False)
        self.second = nn.BatchNorm2d(channels, affine=False)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of x, of the same shape."""
        # Coefficients of ReLU in normalized Hermite polynomials: 1 / sqrt(2 pi), 1 / 2, 1 / sqrt(4 pi).
        y = self.first(x) / 2 + self.second((x * x - 1) / math.sqrt(2)) / math.sqrt(4 * math.pi) + 1 / math.sqrt(2 * math.pi)
        return self.weight.view(1, -1, 1, 1) * y + self.bias.view(1, -1, 1, 1)

    def folded(self) -> FoldedSquare:
        """Return the same polynomial as sign * (scale * x + shift)^2 + offset."""
        one, two = ((n.running_var.double() + n.eps).rsqrt() for n in (self.first, self.second))
        gamma, beta = self.weight.double(), self.bias.double()
        a = gamma * two / math.sqrt(2) / math.sqrt(4 * math.pi)
        b = gamma * one / 2
        c = beta + gamma / math.sqrt(2 * math.pi) - gamma * one * self.first.running_mean.double() / 2
        c = c - gamma * two * (1 / math.sqrt(2) + self.second.running_mean.double()) / math.sqrt(4 * math.pi)
        least = 1e-4 * float(a.detach().abs().max())
        a = torch.where(a.abs() < least, torch.full_like(a, least).copysign(a), a)
        scale = a.abs().sqrt()
        return FoldedSquare(scale, scale * b / (2 * a), a.sign(), c - b * b / (4 * a))


class FoldedSquare(nn.Module):
    """sign * (scale * x + shift)^2 + offset for each channel."""

    def __init__(self, scale: Tensor, shift: Tensor, sign: Tensor, offset: Tensor) -> None:
        super().__init__()
        for name, value in (("scale", scale), ("shift", shift), ("sign", sign), ("offset", offset)):
            self.register_buffer(name, value.detach().float().view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of x, of the same shape."""
        z = x * self.scale + self.shift
        return z * z * self.sign + self.offset


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int, square: bool) -> None:
        super().__init__()

        def activation() -> nn.Module:
            return Square(channels) if square else nn.ReLU()

        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.Identity() if square else nn.BatchNorm2d(channels)
        self.act1 = activation()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.act2 = activation()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = self.act1(self.norm1(self.conv1(x)))
        return self.act2(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, with a maximum pool in resnet18, stages of blocks, the mean over the image, and a dense layer."""

    def __init__(self, network: str) -> None:
        super().__init__()
        square, widths = network.endswith("square"), WIDTHS[network]
        large = network == "resnet18"
        self.stem = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False) if large else nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.pool: nn.Module = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        self.norm = nn.Identity() if square else nn.BatchNorm2d(widths[0])
        self.act: nn.Module = Square(widths[0]) if square else nn.ReLU()
        blocks, inputs = [], widths[0]
        for stage, width in enumerate(widths):
            for number in range(BLOCKS[network]):
                blocks.append(Block(inputs, width, 2 if stage > 0 and number == 0 else 1, square))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.dense = nn.Linear(inputs, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [images, 10] of normalized images [images, 3, height, width]."""
        x = self.blocks(self.pool(self.act(self.norm(self.stem(x)))))
        return self.dense(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def fold(module: nn.Module) -> None:
    """Replace each `Square` of a module by its folded form."""
    for name, child in module.named_children():
        if isinstance(child, Square):
            setattr(module, name, child.folded())
        else:
            fold(child)


def prepared(pixels: Tensor, side: int) -> Tensor:
    """Return pixels 0..255 as normalized images of `side` x `side`."""
    mean, deviation = (torch.tensor(v, device=pixels.device).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    x = (pixels.float() / 255 - mean) / deviation
    if side != x.shape[-1]:
        x = functional.interpolate(x, size=(side, side), mode="nearest")
    return x.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def accuracy(model: nn.Module, images: Images, side: int) -> float:
    """Return the share of images whose largest logit is their label's."""
    right = sum(int((model(prepared(x, side)).argmax(1) == y).sum()) for x, y in images.batches())
    return right / len(images)


def train(model: nn.Module, data: Augmentation, options: argparse.Namespace, side: int) -> None:
    """Train with SGD and one cycle of the learning rate."""
    steps = len(data.labels) // options.batch
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=options.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.rate, epochs=options.epochs, steps_per_epoch=steps, pct_start=0.2
    )
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    half = not options.network.endswith("square")
    start = time.monotonic()
    for epoch in range(options.epochs):
        model.train()
        total = torch.zeros((), device=data.labels.device)
        for pixels, labels in data.epoch(options.batch):
            with torch.autocast(data.labels.device.type, dtype=torch.bfloat16, enabled=half):
                loss = loss_of(model(prepared(pixels, side)), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += loss.detach()
        if epoch % 10 == 9 or epoch + 1 == options.epochs:
            print(f"[{time.monotonic() - start:6.1f} s] epoch {epoch + 1}: loss {float(total) / steps:.4f}", flush=True)


def rounded(model: nn.Module) -> nn.Module:
    """Round the weights to 16 bits, except arrays of fewer than 64 numbers."""
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point() and value.numel() >= 64:
                value.copy_(value.half().float())
    return model


def write(model: nn.Module, path: Path, shape: tuple[int, ...], properties: dict[str, str], short: bool = True) -> None:
    """Write an ONNX file for one image of this shape, with weights of 16 bits if `short`, else of 32 bits."""
    model = model.cpu().eval()
    torch.onnx.export(
        model, (torch.zeros(1, *shape),), str(path), input_names=["image"], output_names=["logits"],
        opset_version=17, **({"dynamo": False} if torch.__version__ >= "2.5" else {}),
    )  # fmt: skip
    proto = onnx.load(str(path))
    if short:
        shorten(proto)
    helper.set_model_props(proto, properties)
    onnx.checker.check_model(proto)
    onnx.save(proto, str(path))


def shorten(proto: onnx.ModelProto) -> None:
    """Store the weights as float16, with Cast nodes that convert them to float32."""
    casts, kept = [], []
    for tensor in proto.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or len(numpy_helper.to_array(tensor).reshape(-1)) < 64:
            kept.append(tensor)
            continue
        half = numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float16"), tensor.name + "_half")
        kept.append(half)
        casts.append(helper.make_node("Cast", [half.name], [tensor.name], name=f"cast_{tensor.name}", to=TensorProto.FLOAT))
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    nodes = casts + list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def main() -> None:
    """Train one network and write its files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the CIFAR-10 files")
    parser.add_argument("--network", choices=sorted(WIDTHS), default="resnet20")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512, help="images in one step")
    parser.add_argument("--rate", type=float, default=0.4, help="largest learning rate")
    parser.add_argument("--decay", type=float, default=5e-4, help="weight decay")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small part of the data, for a smoke test")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side = 64 if options.network == "resnet18" else 32
    data = on_device(load_data(options.data, options.quick)[0], device)
    generator = torch.Generator(device=device).manual_seed(options.seed)
    model = ResNet(options.network).to(device).to(memory_format=torch.channels_last)
    start = time.monotonic()
    train(model, Augmentation(data.train, 0, generator), options, side)
    seconds = time.monotonic() - start
    model.eval()
    fold(model)
    short = options.network != "resnet18"
    if short:
        rounded(model)
    report = {
        "network": options.network,
        "seed": options.seed,
        "epochs": options.epochs,
        "seconds": round(seconds, 1),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "data": "CIFAR-10-JPEG-q75",
        "validation": accuracy(model, data.validation, side),
        "test": accuracy(model, data.test, side),
        "original_4000": accuracy(model, data.original, side),
    }
    write(model, options.out, (3, side, side), {"mean": json.dumps(MEAN), "deviation": json.dumps(DEVIATION)}, short)
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
