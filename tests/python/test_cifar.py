"""CIFAR-10: its file formats, and `heliograph cifar10` on a small network of the same kind as HCNN-11."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import nn
from heliograph.cli import cifar, run
from test_hcnn11 import random_network, small_set

COUNT = 7
NETWORK = random_network(side=32, channels=(1, 2, 2), dense=4, bits=3, levels=3)


class Small(nn.Setup):
    """Parameters and plaintext moduli for the small network."""

    def load(self) -> nn.Network:
        return NETWORK


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> hg.bfv.Parameters:
    """Makes the command use the small network and a small parameter set."""
    parameters = small_set(NETWORK, log_q=230)
    setup = Small("small", "small", None, parameters.n, 230, 0, tuple(parameters.plain_moduli), "small")
    monkeypatch.setattr(cifar, "setup_and_set", lambda name, insecure: (setup, parameters))
    return parameters


def images(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Returns smooth images, which JPEG compression changes little, and labels."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (COUNT, 3, 4, 4), dtype=np.uint8)
    return coarse.repeat(8, 2).repeat(8, 3), (np.arange(COUNT) % 10).astype(np.uint8)


def write_jpeg(path: Path, quality: int = 75, side: int = 32) -> None:
    """Writes concatenated JPEG streams."""
    picture = pytest.importorskip("PIL.Image")
    streams = []
    for image in images()[0]:
        out = io.BytesIO()
        picture.fromarray(image.transpose(1, 2, 0)[:side, :side]).save(out, "JPEG", quality=quality)
        streams.append(out.getvalue())
    offsets = np.cumsum([0, *map(len, streams)])
    np.savez(path, jpeg=np.frombuffer(b"".join(streams), np.uint8), offsets=offsets, labels=images()[1])


def test_the_binary_format_is_read(here: Path) -> None:
    """A record of the binary format has a label and three colour planes. The file is found in the folder that contains it."""
    pixels, labels = images()
    folder = here / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "test_batch.bin").write_bytes(b"".join(bytes([y]) + x.tobytes() for x, y in zip(pixels, labels, strict=True)))
    for path in (here, folder, folder / "test_batch.bin"):
        found, truth, name = cifar.read(path)
        assert name == "CIFAR-10"
        np.testing.assert_array_equal(found, pixels)
        np.testing.assert_array_equal(truth, labels)


@pytest.mark.parametrize("last", [False, True])
def test_arrays_of_pixels(here: Path, last: bool) -> None:
    """Colour channels may be first or last."""
    pixels, labels = images()
    np.savez("some.npz", images=pixels.transpose(0, 2, 3, 1) if last else pixels, labels=labels.astype(np.int64))
    found, truth, name = cifar.read(Path("some.npz"))
    assert name == "CIFAR-10 (some.npz)"
    assert truth.dtype == np.uint8
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("quality", [30, 75, 95])
def test_jpeg_streams(here: Path, quality: int) -> None:
    """JPEG streams are decoded and their quality is detected, because a reported accuracy names the quality."""
    write_jpeg(Path("test_jpeg.npz"), quality)
    found, truth, name = cifar.read(Path())
    assert name == f"CIFAR-10, JPEG q{quality}"
    assert np.abs(found.astype(int) - images()[0]).mean() < 25
    np.testing.assert_array_equal(truth, images()[1])


def saved(**arrays: Any) -> bytes:
    """Returns the bytes of an .npz file."""
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


PIXELS, LABELS = images()
BAD: dict[str, tuple[bytes, type[Exception], str]] = {
    "nothing": (b"", hg.FormatError, "not a batch of"),
    "text": (b"airplane", hg.FormatError, "not a batch of"),
    "a label beyond": (b"\x0a" + bytes(3072), hg.FormatError, "must hold labels from 0"),
    "half a record": (bytes(3073 + 9), hg.FormatError, "multiple of 3073"),
    "other arrays": (saved(x=PIXELS), hg.FormatError, "must hold the arrays images and labels"),
    "no labels": (saved(images=PIXELS), hg.FormatError, "must hold the arrays images and labels"),
    "fewer labels": (saved(images=PIXELS, labels=LABELS[1:]), hg.ShapeError, "each of 7 images, got labels"),
    "small images": (saved(images=PIXELS[:, :, 1:], labels=LABELS), hg.ShapeError, "32 x 32"),
    "real pixels": (saved(images=PIXELS / 255, labels=LABELS), hg.FormatError, "arrays of integers"),
    "long pixels": (saved(images=PIXELS.astype(np.int32), labels=LABELS), hg.FormatError, "of type uint8"),
    "objects": (saved(images=np.array([None]), labels=LABELS), hg.DamagedFileError, "damaged"),
    "cut off": (saved(images=PIXELS, labels=LABELS)[:-40], hg.DamagedFileError, "damaged"),
    "no streams": (saved(jpeg=PIXELS[0, 0], offsets=np.arange(8), labels=LABELS), hg.FormatError, "jpeg must be concatenated"),
    "wrong offsets": (saved(jpeg=PIXELS.reshape(-1), offsets=np.arange(8), labels=LABELS), hg.DamagedFileError, "offsets"),
    "no JPEG": (saved(jpeg=PIXELS[0].reshape(-1), offsets=np.array([0, 3072]), labels=LABELS[:1]), hg.DamagedFileError, "cannot be decoded"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_named(here: Path, case: str) -> None:
    """A bad file gives a typed error with the file's name."""
    data, error, message = BAD[case]
    if case == "no JPEG":
        pytest.importorskip("PIL")
    Path("bad").write_bytes(data)
    with pytest.raises(error, match=f"bad.*{message}"):
        cifar.read(Path("bad"))


def test_any_damage_of_a_file_is_a_typed_error(here: Path) -> None:
    """Every kind of damage to a file of arrays gives a typed error."""
    whole = saved(images=PIXELS[:1, :, :4], labels=LABELS[:1])
    for at in range(0, len(whole), 3):
        for flip in (0x01, 0xFF):
            Path("bad").write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            with pytest.raises(hg.HeliographError):
                cifar.read(Path("bad"))


def test_other_images_are_refused(here: Path) -> None:
    """JPEG images of another size are refused."""
    write_jpeg(Path("small.npz"), side=16)
    with pytest.raises(hg.ShapeError, match=r"image 0 of small\.npz is 16 x 16"):
        cifar.read(Path("small.npz"))
    with pytest.raises(hg.FormatError, match=r"no CIFAR-10 in .*test_batch\.bin"):
        cifar.read(here)


def test_the_error_without_pillow_names_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Pillow, the error for JPEG images names Pillow."""
    write_jpeg(Path("test_jpeg.npz"))
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(hg.HeliographError, match=r"needs Pillow: pip install 'heliograph\[demo\]'"):
        cifar.read(Path("test_jpeg.npz"))


REFUSED = {
    "no data": ("cifar10", "--data"),
    "a missing file": ("cifar10 --data nowhere", "nowhere"),
    "an insecure set": ("cifar10 --data . --parameters hcnn11-2020", "--insecure"),
    "another network's set": ("cifar10 --data . --parameters hcnn5", "hcnn11 or hcnn11-2020"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(here: Path, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is one line that includes the remedy."""
    monkeypatch.setattr(nn, "setup", lambda name: None)
    command, wanted = REFUSED[case]
    assert run(command.split()) != 0
    assert wanted in capsys.readouterr().err


def test_a_batch_is_classified_encrypted(here: Path, small: hg.bfv.Parameters, capsys: pytest.CaptureFixture[str]) -> None:
    """Encrypted classification runs one modulus after another and compares every logit. The reported accuracy names its
    data.
    """
    pixels, labels = images()
    np.savez("some.npz", images=pixels, labels=labels)
    assert len(small.plain_moduli) > 1
    right = int((NETWORK.clear_logits(pixels[:4]).argmax(1) == labels[:4]).sum())
    assert run(["cifar10", "--data", "some.npz", "--limit", "4", "--check", "3"]) == 0
    said = capsys.readouterr().out
    for wanted in (
        "4 images in 1 batch",
        f"for each of {len(small.plain_moduli)} plaintext moduli",
        "memory: about",
        "to classify, estimated",
        "every logit equal",
        "(30 compared, of the first 3 images)",
        f"accuracy on CIFAR-10 (some.npz): {right} of 4 right",
    ):
        assert wanted in said
    assert run(["cifar10", "--data", "some.npz", "--check-all"]) == 0
    assert f"({COUNT}0 compared)" in capsys.readouterr().out.replace(",", "")


def test_insufficient_sets_are_refused_beforehand(
    here: Path, small: hg.bfv.Parameters, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little memory, a too small plaintext range or too little noise budget is refused before keys are made."""
    pixels, labels = images()
    np.savez("some.npz", images=pixels, labels=labels)
    monkeypatch.setattr(hg.SecretKey, "generate", None)
    command = ["cifar10", "--data", "some.npz"]
    setup, _ = cifar.setup_and_set("", False)
    for parameters, wanted in (
        (small_set(NETWORK, log_q=150), "more bits of noise budget"),
        (hg.bfv.parameters(n=1024, log_q=150, special=0, plain_modulus=[12289, 18433], insecure=True), "for the logits of"),
        (hg.bfv.parameters(n=1024, log_q=150, special=0, plain_modulus=[2, 3], insecure=True), "no slots"),
    ):
        monkeypatch.setattr(cifar, "setup_and_set", lambda name, insecure, p=parameters: (setup, p))
        assert run(command) == 1
        assert wanted in capsys.readouterr().err
    monkeypatch.setattr(nn.Network, "memory", lambda self, parameters: 1 << 60)
    assert run(command) == 1
    assert "you have" in capsys.readouterr().err
