"""Description of BFV and BGV for the shared classes."""

from heliograph import _core
from heliograph._common.schemes import described_scheme

EXACT = described_scheme(
    "exact",
    "BFV and BGV",
    _core.exact,
    {
        "conjugate": "integers are real",
        "rescale": "exact integers have no scale",
        "relinearize_rescale": "exact integers have no scale; use hg.relinearize",
        "rotate": "use hg.rotate_rows and hg.rotate_columns",
    },
    {
        "ciphertext": _core.exact.Ciphertext,
        "public-key": _core.exact.PublicKey,
        "evaluation-keys": _core.exact.EvaluationKeys,
    },
    module="bfv",
    files=("bfv", "bgv"),
)
