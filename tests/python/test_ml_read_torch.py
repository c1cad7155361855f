"""PyTorch modules as graphs. Tests with PyTorch run where it is installed; the others use a stand-in for its exporter."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml import ModelError
from heliograph.ml.canonical import canonical
from heliograph.ml.interpreter import run
from heliograph.ml.read.torch import is_module, read_torch
from test_ml_read_onnx import model, node


class StandIn:
    """A module of the stand-in: it doubles its input, or adds a random number."""

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise
        self.training = True

    def modules(self) -> list[Any]:
        return [self]

    def parameters(self) -> list[Any]:
        return []

    def eval(self) -> None:
        self.training = False

    def __call__(self, x: Any) -> Any:
        return StandInTensor(2 * x.array + self.noise)


class StandInTensor:
    """A tensor of the stand-in."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def to(self, device: Any) -> StandInTensor:
        return self

    detach = cpu = lambda self: self

    def numpy(self) -> np.ndarray:
        return self.array


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for PyTorch, whose exporter writes a file for `StandIn`."""
    import contextlib

    fake: Any = types.ModuleType("torch")
    fake.nn = types.SimpleNamespace(Module=StandIn)
    fake.from_numpy, fake.no_grad, fake.device = StandInTensor, contextlib.nullcontext, str
    fake.broken = 0  # exporters that fail
    proto = model([node("Add", "x x")], {"x": [1, 3]}, ["y"])

    def export(module: Any, tensors: Any, file: Any = None, *, dynamo: bool, **options: Any) -> Any:
        assert not module.training
        if fake.broken > (0 if dynamo else 1):
            raise ImportError("no onnxscript\nhere")
        if not dynamo:
            file.write(proto.SerializeToString())
        return types.SimpleNamespace(model_proto=proto)

    fake.onnx = types.SimpleNamespace(export=export)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def test_a_module_is_exported(torch: Any) -> None:
    """Both exporters give the graph; the module keeps its mode."""
    module = StandIn()
    assert is_module(module)
    for broken in (0, 1):
        torch.broken = broken
        graph = read_torch(module, np.ones((4, 3)))
        assert run(graph, np.ones((2, 3)))["y"].tolist() == [[2, 2, 2]] * 2
        assert module.training
    pair = (np.ones((4, 3)), np.arange(4))  # samples and class numbers
    assert run(read_torch(module, pair), np.ones((2, 3)))["y"].tolist() == [[2, 2, 2]] * 2


def test_refusals(torch: Any) -> None:
    """Modules that cannot be exported, or whose file differs, are refused; so are wrong examples."""
    torch.broken = 2
    with pytest.raises(ModelError, match="cannot export the module to ONNX: ImportError: no onnxscript; the exporter"):
        read_torch(StandIn(), np.ones((1, 3)))
    torch.broken = 0
    with pytest.raises(ModelError, match="output y of its ONNX file differs"):
        read_torch(StandIn(noise=0.1), np.ones((1, 3)))
    with pytest.raises(ModelError, match="it has 2 inputs, and its ONNX file 1"):
        read_torch(Two(), (np.ones((1, 3)), np.ones((1, 3))))
    with pytest.raises(hg.ShapeError, match="at least one sample"):
        read_torch(StandIn(), np.ones((0, 3)))
    with pytest.raises(hg.DtypeError, match="must be numbers"):
        read_torch(StandIn(), np.array(["a"]))
    with pytest.raises(hg.DtypeError, match=r"must be a torch\.nn\.Module, got int"):
        read_torch(3, np.ones((1, 3)))


class Two(StandIn):
    """A module of two inputs."""

    def __call__(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return x


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No object is a module where PyTorch is not imported."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not is_module(StandIn())


def test_real_modules() -> None:
    """Networks of PyTorch equal their graphs and the canonical form of these."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(1)

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))
            self.two = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.two(torch.relu(self.one(x))))

    image = [nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), Residual(8), nn.MaxPool2d(2)]
    networks = {
        "cnn": (nn.Sequential(*image, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(8, 5)), (3, 16, 16)),
        "pools": (
            nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.PReLU(3), nn.Flatten(), nn.Linear(192, 4), nn.SiLU()),
            (3, 16, 16),
        ),
        "mlp": (nn.Sequential(nn.Linear(12, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Sigmoid()), (12,)),
        "encoder": (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"), (6, 16)),
        "sequence": (nn.Sequential(nn.Conv1d(4, 6, 3), nn.ELU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(24, 2)), (4, 10)),
    }
    for name, (network, shape) in networks.items():
        x = np.random.default_rng(1).normal(size=(3, *shape)).astype(np.float32)
        graph = read_torch(network, x)
        network.eval()
        with torch.no_grad():
            wanted = network(torch.from_numpy(x)).numpy()
        for form in (graph, canonical(graph)):
            assert np.abs(run(form, x)[form.outputs[0]] - wanted).max() < 1e-4, name
