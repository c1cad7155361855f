"""BFV and BGV, as the shared classes see them."""

from heliograph._schemes import Bare, described_scheme

EXACT = described_scheme(
    "exact",
    "BFV and BGV",
    {
        "conjugate": "nothing to conjugate: integers are real",
        "rescale": "nothing to rescale: exact integers have no scale",
        "relinearize_rescale": "relinearize: exact integers have no scale",
        "rotate": "hg.rotate_rows and hg.rotate_columns",
    },
    Bare("evaluation-keys", {"rotations": {}}, {}),
    module="bfv",
    prefix="",
    files=("bfv", "bgv"),
)
