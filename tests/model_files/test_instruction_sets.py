"""A model file predicts the same bits as the model itself, also in a process that uses other instructions."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from mercer import load_model, save_model
from mercer.linalg import instruction_set

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import mutated_models as models
else:
    from . import mutated_models as models

QUICK = ("butterflies", "near rows", "process", "series", "neurons")


def digests(folder, names):
    """Return a digest of what the model of each file computes, after a comparison with the pickle of the model."""
    found = {}
    for name in names:
        results = models.results(load_model(folder / f"{name}.mercer"))
        assert results == models.results(pickle.loads((folder / f"{name}.pickle").read_bytes())), name
        found[name] = hashlib.sha256(repr(sorted(results.items())).encode()).hexdigest()
    return found


def digests_with(instructions, folder, names):
    """Return the same of a process that uses other instructions, or None if the machine does not have them."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), MERCER_ISA=instructions, OMP_NUM_THREADS="1")
    command = [sys.executable, "-W", "ignore", __file__, str(folder), *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "MERCER_ISA must be one of" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    used, found = json.loads(done.stdout)
    assert used == instructions
    return found


def written(folder, names):
    for name in names:
        model = models.fitted(name)
        save_model(model, folder / f"{name}.mercer")
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(model))


def test_files_predict_the_bits_of_their_models_with_other_instructions(tmp_path):
    written(tmp_path, QUICK)
    other = "numpy" if instruction_set() == "baseline" else "baseline"
    found, here = digests_with(other, tmp_path, QUICK), digests(tmp_path, QUICK)
    # Landmarks, monomials and kernels by themselves use BLAS only.
    assert {name for name in QUICK if found[name] == here[name]} >= {"process", "series"}


@pytest.mark.slow
def test_files_predict_the_bits_of_their_models_with_all_instructions(tmp_path):
    names = tuple(models.MODELS)
    written(tmp_path, names)
    found = {one: digests_with(one, tmp_path, names) for one in ("avx512", "avx2", "baseline", "numpy")}
    assert found["baseline"] is not None
    assert found["numpy"] is not None
    if found["avx512"] is not None:  # both multiply and add with one rounding
        assert found["avx512"] == found["avx2"]


if __name__ == "__main__":
    print(json.dumps([instruction_set(), digests(Path(sys.argv[1]), sys.argv[2:])]))
