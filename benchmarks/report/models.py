"""Tables of compiled networks and ensembles, and of keys for a level."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.report.render import Lines, Reports, commit, link, markdown, seconds, size
from benchmarks.report.results import Report

_NAMES = {
    "minilm-l6": "MiniLM-L6",
    "lenet5": "LeNet-5, MNIST",
    "resnet20": "ResNet-20, ReLU, CIFAR-10-JPEG-q75",
    "resnet20-square": "ResNet-20, squares, CIFAR-10-JPEG-q75",
    "resnet18": "ResNet-18, ReLU, CIFAR-10-JPEG-q75 of 64 x 64 pixels",
    "resnet18-random": "ResNet-18, ReLU, random weights, 64 x 64 pixels",
    "resnet20_cifar10_pre": "ResNet-20, ReLU, trained by others, CIFAR-10-JPEG-q75",
}
_STEPS = {
    "rotation-usual": "rotation, usual key",
    "rotation-level": "rotation, key for the level",
    "matrix64-transformed": "matrix of 64 diagonals",
    "matrix64-compact": "the same matrix, compact plaintexts",
    "blocks4x4": "4 x 4 blocks of 9 diagonals",
    "singles4x4": "the same blocks as 16 matrices",
}


def _place(report: Report) -> str:
    machine = report["machine"]
    device = str(machine.get("device") or "")
    if device.startswith("cuda: "):
        return device.split(",")[0].removeprefix("cuda: ")
    return f"{machine['processor']}, {machine['threads']} threads"


def models(reports: Reports) -> Lines:
    """Returns the times, sizes and agreements of compiled networks."""
    heads = ["network", "device", "set, bootstraps", "one request", "images in it", "one image"]
    heads += ["keys", "matrices", "images simulated", "accuracy, clear and simulated", "same class", "encrypted: same class"]
    lines, notes = [], []
    for name, report in reports.items():
        for row in report["results"]:
            named = row["parameters"]
            ring = named.partition("N=")[2].partition(",")[0]
            chosen = f"N={ring}" if ring else named
            accuracy = f"{100 * row['clear_accuracy']:.2f}%, {100 * row['simulated_accuracy']:.2f}%"
            lines.append(
                [
                    _NAMES.get(row["model"], row["model"]),
                    _place(report),
                    f"{chosen}, {row['bootstraps']}",
                    seconds(row["seconds"]) if "seconds" in row else "-",
                    str(row["batch"]),
                    seconds(row["seconds"] / row["batch"]) if "seconds" in row else "-",
                    size(row["predicted_key_bytes"]),
                    size(row["predicted_matrix_bytes"]),
                    f"{row['images']:,}",
                    accuracy,
                    f"{100 * row['same_class']:.1f}%",
                    f"{row['encrypted_same_class']} of {row['encrypted_images']}" if "encrypted_images" in row else "-",
                ]
            )
        notes.append(f"{link(name)}, {commit(report['commit'])}")
    note = (
        "Medians of warm calls, 128-bit security. Keys and matrices are predicted before any key exists. The encrypted images are "
        "the least certain ones and as many random ones. From " + "; ".join(notes) + "."
    )
    return [*markdown(heads, lines), "", note]


def level_keys(reports: Reports) -> Lines:
    """Returns the times of rotations by keys for a level, of compact plaintexts, and of matrices of blocks."""
    heads = ["operation", "level", *(_place(report) for report in reports.values()), "keys", "plaintexts"]
    cases = next(iter(reports.values()))["results"]
    lines = []
    for number, row in enumerate(cases):
        step, _, level = row["case"].rpartition("-l")
        times = [seconds(report["results"][number]["median_s"]) for report in reports.values()]
        plain = size(row["plaintext_bytes"]) if "plaintext_bytes" in row else "-"
        lines.append([_STEPS[step], level, *times, size(row["key_bytes"]), plain])
    names = "; ".join(f"{link(name)}, {commit(report['commit'])}" for name, report in reports.items())
    kind = next(iter(reports.values()))["set"]
    note = f"Set {kind}. Rotations: time for each of 16 ciphertexts in one call. Medians of warm calls. From {names}."
    return [*markdown(heads, lines), "", note]


def trees(reports: Reports) -> Lines:
    """Returns the times, bytes and errors of ensembles of trees."""
    heads = [
        "model",
        "case",
        "device",
        "scheme, ring",
        "seconds",
        "processor",
        "keys",
        "request",
        "largest error",
        "same classes",
    ]
    lines, notes = [], []
    for name, report in reports.items():
        source = "XGBoost" if report["source"] == "xgboost" else "complete trees"
        for row in report["results"]:
            if "trees" not in row or "leaves" not in row:
                peer = f"Concrete-ML {row['versions']['concrete-ml']}, {row['trees']} of depth {row['depth']}"
                lines.append([peer, "one row", _place(report), "TFHE", seconds(row["seconds"]), *["-"] * 5])
                continue
            ring = row["parameters"].partition("N=")[2].partition(",")[0]
            model = (
                f"{source}, {row['trees']} of depth {row['depth']}, {row['leaves']} leaves, {row['conditions']} conditions"
            )
            error = "exact" if row["log2_error"] is None else f"2^{row['log2_error']:.1f}"
            same = f"{100 * row['equal_classes']:.2f}%"
            cells = [
                seconds(row["seconds"]),
                seconds(row["cpu_seconds"]),
                size(row["key_bytes"]),
                size(row["request_bytes"]),
            ]
            lines.append([model, row["case"], _place(report), f"{row['scheme']}, {ring}", *cells, error, same])
        load = (
            ", ".join(f"{value:.1f}" for value in report["load"])
            if isinstance(report["load"], list)
            else str(report["load"])
        )
        notes.append(f"{link(name)}, {commit(report['commit'])}, load of the machine {load}")
    note = "Medians of warm calls, 128-bit security. Errors are relative to the largest leaf. From " + "; ".join(notes) + "."
    return [*markdown(heads, lines), "", note]


def sentences(reports: Reports) -> Lines:
    """Returns the times, memory and agreement of sentence embeddings."""
    heads = [
        "model",
        "device",
        "set, bootstraps",
        "one sentence",
        "forecast",
        "matrices, forecast",
        "keys",
        "request",
        "compiled in",
    ]
    heads += ["simulated", "outside", "cosine, mean and least", "same nearest", "encrypted: least cosine"]
    lines, notes, products = [], [], []
    for name, report in reports.items():
        rows = [part for part in report["results"] if not {"cuts", "products", "sentence"} & part.keys()]
        row = {key: value for part in rows for key, value in part.items()}
        timed = "peak_device_bytes" in row
        cells = [
            f"{_NAMES.get(row['model'], row['model'])}, {row['tokens']} tokens",
            _place(report),
            f"{row['parameters']}, {row['bootstraps']}",
            seconds(row["seconds"]) if timed else "-",
            seconds(row["forecast_seconds"]),
            size(row["forecast_matrix_bytes"]),
            size(row["key_bytes"] if timed else row["forecast_key_bytes"]),
            size(row["request_bytes"]) if timed else "-",
            "-" if row.get("compiled_elsewhere") else seconds(row["compile_seconds"]),
        ]
        found = row.get("simulated")
        cells += (
            ["-"] * 4
            if found is None
            else [
                f"{found['sentences']:,}",
                f"{found['outside_intervals']}",
                f"{found['mean_cosine']:.5f}, {found['least_cosine']:.5f}",
                f"{100 * found['same_nearest']:.1f}%",
            ]
        )
        lines.append([*cells, f"{row['least_cosine']:.5f}" if timed else "-"])
        notes.append(f"{link(name)}, {commit(report['commit'])}")
        for part in report["results"]:
            if "products" in part:
                one = part["products"]
                ours, apart = (
                    one["hoisted_rotation_us"] + one["term_of_a_sum_us"],
                    one["product_us"] + one["rotation_us"],
                )
                products.append(f"level {one['level']}: {ours:.1f} us, apart {apart:.1f} us ({one['ratio']:.2f})")
    note = (
        "Medians of warm calls, 128-bit security. Cosines and nearest neighbours are simulations beside the clear model. From "
        + "; ".join(notes)
        + "."
    )
    if products:
        note += (
            " A rotation and a term of a sum of products, each of a batch of 126 at n16-b13: " + "; ".join(products) + "."
        )
    return [*markdown(heads, lines), "", note]


TABLES: dict[str, Callable[[dict[str, Report]], Lines]] = {
    "models": models,
    "level keys": level_keys,
    "trees": trees,
    "sentences": sentences,
}
