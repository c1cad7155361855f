"""Ask an encrypted question to a service of passages (docs/sentences.md).

    python client.py "How long are keys stored?" --tokenizer tokenizer.json

The service sees ciphertexts. The program prints the nearest passages, seconds and bytes. The first call makes the keys in the
folder `--keys`, which must stay private, and uploads evaluation keys, which cannot decrypt.
"""

from __future__ import annotations

import sys

from search import Search

import heliograph as hg
from sentences import access_of, client_options, report


def main() -> int:
    """Ask the question of the command line. Return the exit status."""
    parser = client_options(__doc__)
    parser.add_argument("question")
    given = parser.parse_args()
    try:
        search = Search(given.service, given.tokenizer, given.keys, **access_of(given))
        answer = search.ask(given.question, given.count, truncate=given.truncate)
    except (hg.HeliographError, OSError) as error:
        report(f"{type(error).__name__}: {error}")
        return 1
    if answer["left_out"]:
        report(f"The last {answer['left_out']} tokens of the question were left out.")
    for place, passage in enumerate(answer["passages"], 1):
        print(f"{place}. {passage}")
    for name, (seconds, sent, received) in {"start": search.start, **answer["steps"]}.items():
        print(f"{name:>10}  {seconds:8.2f} s, {sent:,} bytes sent, {received:,} received")
    return 0


if __name__ == "__main__":
    sys.exit(main())
