"""The command `profile`: measured seconds of CKKS operations on this device, as a file for forecasts elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def profile(
    out: Annotated[Path, typer.Option("--out", help="File to write, such as h200.json.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the profile; default: the file's.")] = None,
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", help="Named parameter set whose bootstrap is measured; none: no bootstrap.")
    ] = "n16-b13",
    word_sizes: Annotated[str, typer.Option("--word-sizes", help="Bits of the words: 64, 32 or 64,32.")] = "64",
    batches: Annotated[str, typer.Option("--batches", help="Numbers of ciphertexts of one call.")] = "1,16",
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Measure processor time, on cores that other programs share.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Measure CKKS operations on the device in use, in about a minute, and write a cost profile.

    `hg.ml.profile.profile_of` reads the file on any machine. HELIOGRAPH_DEVICE chooses the device.
    """
    from heliograph.cli.workflow import CommandError, require_absent
    from heliograph.ml.profile import measure

    require_absent([out], force)
    sizes, counts = _numbers(word_sizes, "--word-sizes"), _numbers(batches, "--batches")
    if not set(sizes) <= {32, 64}:
        raise CommandError(f"--word-sizes must be 64, 32 or 64,32, got {word_sizes}")
    made = measure(
        name or out.stem,
        bootstrap=None if bootstrap == "none" else bootstrap,
        word_sizes=sizes,
        batches=counts,
        processor_time=processor_time,
        report=typer.echo,
    )
    made.save(out)
    typer.echo(f"{out}: {len(made.rows)} measurements of {made.device}")


def _numbers(text: str, option: str) -> list[int]:
    from heliograph.cli.workflow import CommandError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise CommandError(f"{option} must be positive integers with commas, got {text!r}")
    return numbers
