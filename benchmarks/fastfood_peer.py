"""Time scikit-learn-extra's Fastfood beside a copy of its output, in an environment of its own.

Started by `transform.py` with that environment's Python: it needs versions of NumPy and scikit-learn that mercer does
not run with. Prints one line of JSON: seconds of every round of both.
"""

import json
import sys
import time

import numpy as np
from sklearn_extra.kernel_approximation import Fastfood


def main(n: int, d: int, n_components: int, rounds: int) -> None:
    """Time both in turn, after one untimed call of each."""
    X = np.random.default_rng(0).standard_normal((n, d))
    # A Fastfood of m components writes 2m columns.
    peer = Fastfood(sigma=np.sqrt(d), n_components=n_components // 2, random_state=0).fit(X)
    source = peer.transform(X)
    buffer = np.empty_like(source)
    cases = {"fastfood": lambda: peer.transform(X), "copy": lambda: np.copyto(buffer, source)}
    seconds = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            start = time.perf_counter()
            result = case()
            stop = time.perf_counter()
            del result
            if number:
                seconds[name].append(stop - start)
    print(json.dumps(seconds | {"columns": source.shape[1]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
