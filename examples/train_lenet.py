"""Train LeNet-5 for MNIST and write it as an ONNX file that `hg.ml.compile` reads.

Network
    LeCun et al. (1998) with ReLU: 5x5 convolution of 6 channels, mean over 2x2, 5x5 convolution of 16 channels, mean over 2x2,
    dense layers of 120, 84 and 10.

File
    NAME.onnx: input "image" [1, 1, 28, 28] with pixels of 0 to 1, output "logits" [1, 10], weights as float16.

Use
    python train_lenet.py --data FOLDER --out lenet5.onnx    # half a minute on a GPU; FOLDER has MNIST's four files

    Needs numpy, pillow, onnx and PyTorch. A seed gives the same file on the same hardware and PyTorch.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from train_resnet import rounded, write


def load(folder: Path, part: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images (number, 1, 28, 28) of 0 to 1 and labels."""
    pixels = np.frombuffer(gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return images.to(device), torch.from_numpy(labels.astype(np.int64)).to(device)


def network() -> nn.Sequential:
    """Return LeNet-5 with random weights."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def main() -> None:
    """Train the network and write its files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of MNIST's files")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256, help="images in one step")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = load(options.data, "train", device)
    model = network().to(device)
    steps = len(images) // options.batch
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs=options.epochs, steps_per_epoch=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for _ in range(options.epochs):
        order = torch.randperm(len(images)).to(device)
        for step in range(steps):
            chosen = order[step * options.batch : (step + 1) * options.batch]
            loss = loss_of(model(images[chosen]), labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
    rounded(model.eval())
    test, right = load(options.data, "t10k", device)
    with torch.no_grad():
        accuracy = float((model(test).argmax(1) == right).float().mean())
    report = {"network": "lenet5", "seed": options.seed, "epochs": options.epochs, "data": "MNIST", "test": accuracy,
              "torch": torch.__version__}  # fmt: skip
    write(model, options.out, (1, 28, 28), {})
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
