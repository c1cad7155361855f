"""heliograph params, inspect, devices."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import heliograph as hg
from heliograph import _core, nn
from heliograph._common.arguments import printable, readable_bytes
from heliograph.cli import terminal, workflow
from heliograph.keys import SwitchKeys
from heliograph.knn import vectors
from heliograph.models import bundle
from heliograph.pir import keyword
from heliograph.serving import served
from heliograph.sql import answers, table


def all_sets() -> None:
    """Prints a row for each named set and each network's set."""
    rows = []
    for scheme in (hg.bfv, hg.bgv):
        for name in scheme.named():
            rows.append(_row(name, scheme.parameters(name, insecure=True)))
    terminal.table("Named parameter sets", ("name", "N", "log q", "log QP", "plaintext bits", "slots", "security"), rows)
    terminal.say()
    rows = []
    for setup in nn.SETUPS.values():
        rows.append(_row(setup.name, setup.parameters()))
    terminal.table("Networks and their sets", ("name", "N", "log q", "log QP", "plaintext bits", "slots", "security"), rows)
    terminal.say()
    for setup in nn.SETUPS.values():
        terminal.say(f"{setup.name}: {setup.title}")
    terminal.say()
    columns = ("name", "n", "k", "N", "an integer's digits", "failure", "keys", "security")
    sets = [_tfhe_row(hg.tfhe.parameters(name, insecure=True)) for name in hg.tfhe.named()]
    terminal.table("TFHE: encrypted bits and integers", columns, sets)
    terminal.say()
    columns = ("name", "N", "log q", "log QP", "multiplications", "scale", "slots", "security")
    numbers = [_ckks_row(hg.ckks.parameters(name, insecure=True)) for name in hg.ckks.named()]
    terminal.table("CKKS: encrypted real and complex numbers", columns, numbers)
    terminal.say("\n`heliograph params NAME` explains one, `heliograph params --depth 3 --plain-bits 20` finds one.")


def _row(name: str, p: hg.bfv.Parameters) -> tuple[str, ...]:
    slots = f"{p.slots:,}" if p.has_slots else "none"
    bits = str(p.plain_modulus.bit_length())
    return (name, f"{p.n:,}", f"{p.log_q:.0f}", f"{p.log_qp:.0f}", bits, slots, p.security)


def _tfhe_row(p: hg.tfhe.Parameters) -> tuple[str, ...]:
    digits = "bit by bit" if not p.message_bits else "1 bit" if p.message_bits == 1 else f"{p.message_bits} bits"
    keys = readable_bytes(p.evaluation_key_bytes)
    return (p.name, str(p.n), str(p._core.spec.k), f"{p.degree:,}", digits, f"2^{p.log2_failure:.0f}", keys, p.security)


def _ckks_row(p: hg.ckks.Parameters) -> tuple[str, ...]:
    scale, depth = f"2^{p.log_scale:.1f}", f"{p.depth_between} a bootstrap" if p.bootstrapping_level else str(p.depth)
    return (p.name, f"{p.n:,}", f"{p.log_q:.0f}", f"{p.log_qp:.0f}", depth, scale, f"{p.slots:,}", p.security)


def one_set(name: str) -> None:
    """Prints the set of that name or network."""
    base = name.split("/")[0]
    if base in hg.bfv.named():
        terminal.labelled(hg.bfv.parameters(name, insecure=True).explain())
        return
    if base in hg.bgv.named():
        terminal.labelled(hg.bgv.parameters(name, insecure=True).explain())
        return
    if name in hg.tfhe.named():
        terminal.labelled(hg.tfhe.parameters(name, insecure=True).explain())
        return
    if base in {other.split("/")[0] for other in hg.ckks.named()}:
        terminal.labelled(hg.ckks.parameters(name, insecure=True).explain())
        return
    if base not in nn.SETUPS:
        sets = ", ".join(
            [
                *hg.bfv.named(),
                *(n for n in nn.SETUPS if n not in hg.bfv.named()),
                *hg.bgv.named(),
                *hg.tfhe.named(),
                *hg.ckks.named(),
            ]
        )
        raise workflow.CommandError(f'no set or network is named "{name}"; use one of {sets}')
    setup = nn.setup(name)
    network = setup.load()
    counts = network.counts()
    terminal.labelled(setup.parameters().explain())
    keys = setup.keys()
    rotations = len(keys.get("rotations", ()))
    count = 1 + rotations + bool(keys.get("columns"))
    terminal.labelled(f"{'network':>14}  {setup.title}")
    if setup.packed:
        total = readable_bytes(count * setup.parameters().switch_key_bytes / 2)
        columns = ", columns" if keys.get("columns") else ""
        terminal.labelled(f"{'server keys':>14}  relinearization, {rotations} rotations{columns}: {total}")
    else:
        terminal.labelled(
            f"{'work':>14}  {counts.inputs:,} ciphertexts in, {counts.products:,} squares, {counts.constants:,} "
            f"ciphertext-constant products, {counts.relinearizations:,} relinearizations"
        )


def search_set(depth: int, plain_bits: int, slots: int, terms: int, scheme: str = "bfv") -> None:
    """Prints the smallest BFV or BGV set for a need."""
    if scheme not in ("bfv", "bgv"):
        raise workflow.CommandError(f'--scheme must be bfv, bgv or ckks, got "{scheme}"')
    family = hg.bgv if scheme == "bgv" else hg.bfv
    terminal.labelled(family.parameters(depth=depth, plain_bits=plain_bits, slots=slots, terms=terms).explain())


def search_ckks_set(depth: int, precision: int | None, slots: int, bootstrap: bool) -> None:
    """Prints the smallest CKKS set for a need."""
    parameters = hg.ckks.parameters(depth=depth, precision=precision, slots=slots, bootstrap=bootstrap)
    terminal.labelled(parameters.explain())


def devices() -> None:
    """Prints the devices."""
    for line in hg.devices():
        terminal.say(line)


_KINDS = {
    "ciphertext": "ciphertext tensor",
    "secret-key": "secret key: anyone with this file can decrypt",
    "public-key": "public key: encrypts, does not decrypt",
    "evaluation-keys": "evaluation keys: for a server, do not decrypt",
    "program": "recorded program: hg.Program.load reads it",
}


#: For each type: its reader, and the parts that the reader checks.
_READ_WHOLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    bundle.TYPE: (bundle.ModelBundle.load, "digest, parameters, layers and weights"),
    table.TYPE: (hg.sql.EncryptedTable.load, "digest, layout and parts"),
    answers.TYPE: (hg.sql.Answer.load, "digest, query and every residue"),
    keyword.CLIENT_TYPE: (hg.pir.LookupClient.load, "digest and columns"),
    keyword.DATABASE_TYPE: (served.LookupTable, "digest, columns and size"),
    vectors.INDEX_TYPE: (served.VectorIndex, "digest, numbers and ids"),
    vectors.LAYOUT_TYPE: (hg.knn.VectorLayout.load, "digest, numbers and ids"),
    vectors.SCORES_TYPE: (hg.knn.Scores.load, "digest and numbers"),
}


def inspect(path: Path) -> bool:
    """Prints a file's contents and checks it, without a key. Shows no value of a secret key. Returns whether the file is
    undamaged.
    """
    info = json.loads(_core.container.inspect(str(path)))
    if info["type"] in _READ_WHOLE:
        return _inspect_whole(path, info)
    kind = str(info["type"]).rsplit(".", 1)[-1]
    tfhe, ckks = (workflow.scheme_of(info) == scheme for scheme in ("tfhe", "ckks"))
    header = info["header"]
    rows = [("file", str(path)), ("size", f"{info['file_bytes']:,} bytes"), ("kind", _KINDS.get(kind, kind))]
    if kind == "program":
        rows += _program_rows(header)
    elif "key" in header:
        rows.append(("key id", str(header["key"])))
    if "parameters" in header and kind != "program":
        parameter_rows = _tfhe_parameter_rows if tfhe else _ckks_parameter_rows if ckks else _parameter_rows
        rows += parameter_rows(header)
    rows += _tfhe_kind_rows(kind, header) if tfhe else _kind_rows(kind, header)
    if kind == "evaluation-keys":
        total = sum(array["bytes"] for array in info["arrays"])
        contents = "bootstrapping and key-switching key" if tfhe else f"{len(info['arrays'])} keys"
        rows.append(("arrays", f"{contents}, {readable_bytes(total)}"))
    elif kind != "secret-key":
        for array in info["arrays"]:
            shape = " x ".join(str(length) for length in array["shape"])
            rows.append(("array", f"{array['name']}: {array['dtype']} {shape}, {readable_bytes(array['bytes'])}"))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        terminal.labelled(f"{label:>{width}}  {printable(text)}")  # escapes control characters of the file
    damage, keys = _read(path, kind)
    if isinstance(keys, SwitchKeys) and keys.rotations:
        divisor, switches = keys.reach
        terminal.labelled(
            f"{'composed':>{width}}  compose=True makes rotations by multiples of {divisor:,}, of {switches:,} key switches "
            "at most"
        )
    stays = kind == "evaluation-keys" and 2 * sum(array["bytes"] for array in info["arrays"]) > _room()
    checked = (
        "digest and shapes" if tfhe or stays else "digest and calls" if kind == "program" else "digest and every residue"
    )
    state = f"whole: {checked} checked" if damage is None else f"DAMAGED: {damage}"
    terminal.labelled(f"{'state':>{width}}  {state}", "bold" if damage is None else "bold red")
    return damage is None


def _inspect_whole(path: Path, info: dict[str, Any]) -> bool:
    """Prints the contents of a file that describes itself once read, or the error of reading it."""
    reader, checked = _READ_WHOLE[info["type"]]
    rows = [("file", str(path)), ("size", f"{info['file_bytes']:,} bytes")]
    damage = ""
    try:
        rows += reader(path)._rows()
    except hg.VersionError as error:
        damage = f"NOT READ: {error}"
    except hg.FormatError as error:
        damage = f"DAMAGED: {error}"
    except hg.HeliographError as error:
        damage = f"NOT READ: {error}"
    for label, text in rows:
        terminal.labelled(f"{label:>14}  {printable(text)}")
    terminal.labelled(f"{'state':>14}  {damage or f'whole: {checked} checked'}", "bold red" if damage else "bold")
    return not damage


def _parameter_rows(header: dict[str, Any]) -> list[tuple[str, str]]:
    p = header["parameters"]
    log_q = sum(int(q).bit_length() for q in p["chain"])
    bound = hg._core.exact.largest_secure_log_qp(p["n"])
    log_qp = log_q + sum(int(q).bit_length() for q in p["special"])
    name = f" {p['name']}" if p.get("name") else ""
    secure = "128-bit" if log_qp <= bound + 1 else "below 128 bits"
    t = ", ".join(str(v) for v in p["plain_moduli"])
    return [
        ("scheme", f"{str(p['scheme']).upper()}{name}, {str(p['edition'])[1:]}-bit words"),
        ("parameters", f"N = {p['n']:,}, {len(p['chain'])} primes of {log_q} bits, {len(p['special'])} special; {secure}"),
        ("plaintext", f"t = {t}; {'exact integers' if p.get('exact') else 'residues'}"),
        ("hash", str(header.get("parameter_hash", ""))),
    ]


def _ckks_parameter_rows(header: dict[str, Any]) -> list[tuple[str, str]]:
    p = header["parameters"]
    log_q, log_p = (sum(math.log2(int(q)) for q in p[primes]) for primes in ("chain", "special"))
    name = f" {p['name']}" if p.get("name") else ""
    secure = "128-bit" if log_q + log_p <= hg._core.exact.largest_secure_log_qp(p["n"]) else "below 128 bits"
    return [
        ("scheme", f"CKKS{name}, {str(p['edition'])[1:]}-bit words"),
        (
            "parameters",
            f"N = {p['n']:,}, {len(p['chain'])} primes of {log_q:.0f} bits, {len(p['special'])} special; {secure}",
        ),
        ("fresh scale", f"2^{p['log_scale']:.1f}"),
        ("hash", str(header.get("parameter_hash", ""))),
    ]


def _tfhe_parameter_rows(header: dict[str, Any]) -> list[tuple[str, str]]:
    p = header["parameters"]
    name = f" {p['name']}" if p.get("name") else ""
    digits = f"digits of {p['message_bits']} bit(s) and {p['carry_bits']} for carries" if p["message_bits"] else "bits"
    return [
        ("scheme", f"TFHE{name}"),
        ("parameters", f"n = {p['n']}, k = {p['k']}, N = {p['degree']:,}; {_tfhe_security(p)}"),
        ("encoding", digits),
        ("hash", str(header.get("parameter_hash", ""))),
    ]


def _tfhe_security(p: dict[str, Any]) -> str:
    """Returns the security computed from the numbers, not from the file's claim."""
    numbers: dict[str, Any] = {name: p[name] for name in ("n", "k", "degree", "group", "message_bits", "carry_bits", "norm")}
    for name in ("lwe_noise", "glwe_noise"):
        numbers[name] = ("tuniform" if p[name]["tuniform"] else "gaussian", p[name]["value"])
    for name in ("bootstrap", "switch"):
        numbers[name] = (p[f"{name}_log_base"], p[f"{name}_levels"])
    hg.devices()  # raises errors of this process's device, which are not the file's
    try:
        return hg.tfhe.parameters(insecure=True, **numbers).security
    except hg.HeliographError as error:
        return f"no parameter set: {error}"


def _tfhe_kind_rows(kind: str, header: dict[str, Any]) -> list[tuple[str, str]]:
    if kind != "ciphertext":
        return []
    seeded = "fresh, masks as a seed" if "seed" in header else "whole"
    return [("shape", str(header["shape"])), ("dtype", str(header["type"])), ("written", seeded)]


def _program_rows(header: dict[str, Any]) -> list[tuple[str, str]]:
    formatters = {"tfhe": _tfhe_parameter_rows, "ckks": _ckks_parameter_rows}
    rows = [
        (
            "operands",
            f"{len(header.get('operands', []))} of {header.get('keys')} owner(s), {header.get('sources')} with evaluation "
            "keys",
        ),
        ("results", f"{len(header.get('results', []))}"),
    ]
    for one in header.get("parameters", []):
        rows += formatters.get(one["scheme"], _parameter_rows)(one)
    return rows


def _growth(bound: dict[str, Any]) -> str:
    """Describes the bound on integers of BFV and BGV (docs/format.md)."""
    try:
        terms = [
            (f"{int(c, 16):,}" if len(c) < 16 else f"2^{4 * len(c)}") + {0: "", 1: " D"}.get(d, f" D^{d}")
            for d, c in zip(bound["degrees"], bound["coefficients"], strict=True)
        ]
    except (KeyError, TypeError, ValueError):
        return "an invalid bound"
    of = " (D: the largest value encrypted)" if any(bound["degrees"]) else ""
    return f"at most {' + '.join(terms) or 0} in magnitude{of}, by the file's claim"


def _kind_rows(kind: str, header: dict[str, Any]) -> list[tuple[str, str]]:
    if kind == "evaluation-keys":
        rotations = header.get("rotations")
        have = "yes" if header.get("relinearization") else "no"
        rows = [("relinearization", have), ("rotations", f"{len(rotations or {})} keys")]
        levels = header.get("level_rotations")
        for level, seeds in levels.items() if isinstance(levels, dict) else ():
            rows.append((f"at level {level}", f"{len(seeds) if isinstance(seeds, dict) else 0} keys"))
        return rows + ([("bootstrapping", "yes")] if "bootstrapping" in header else [])
    if kind == "ciphertext":
        rows = [
            (label, str(header[label]))
            for label in ("shape", "degree", "level", "packing", "width", "scale", "complex")
            if label in header
        ]
        if isinstance(bound := header.get("bound"), dict):
            rows.append(("integers", _growth(bound)))
        if ranges := header.get("ranges"):
            low, high = min(one[0] for one in ranges), max(one[1] for one in ranges)
            rows.append(("values", f"between {low:.6g} and {high:.6g}, by the file's claim"))
        value_lists = [(label, header[label]) for label in ("noise", "bound") if isinstance(header.get(label), list)]
        return rows + [(label, f"at most 2^{max(values) / 16:.1f}, by the file's claim") for label, values in value_lists]
    return []


def _read(path: Path, kind: str) -> tuple[str | None, Any]:
    """Reads a file to its end. Returns the damage (None: undamaged) and the object that it holds."""
    try:
        if kind == "secret-key":
            return None, hg.SecretKey.load(path)
        if kind == "program":
            return None, hg.Program.load(path)
        return None, hg.load(path, memory=_room() if kind == "evaluation-keys" else None)
    except hg.FormatError as error:
        return str(error), None


def _room() -> int:
    """Returns the bytes of memory for inspecting keys. Larger keys are read once and stay in their file."""
    return _core.device.host_memory() // 4
