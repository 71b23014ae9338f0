"""Model files of earlier versions can be read, and give the predictions that were stored beside them."""

import json

import numpy as np
import pytest

from mercer import describe_model, load_model
from mercer.model_files.files import FORMAT

from . import corpus_models

FILES = sorted(corpus_models.FOLDER.glob("*.mercer"))
pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows


def test_every_model_has_a_file_of_the_current_format():
    assert {path.stem for path in FILES} >= {f"format{FORMAT}-{name}" for name in corpus_models.MODELS}
    assert sum(path.stat().st_size for path in FILES) < 500_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_model_of_the_corpus_predicts_as_when_it_was_written(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    found = corpus_models.results(load_model(path))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if isinstance(values[0], str):
            assert found[name] == values
        else:  # processors and versions of BLAS differ in the last bits
            np.testing.assert_allclose(found[name], values, rtol=1e-8, atol=1e-9)


def test_corpus_is_described():
    for path in FILES:
        about = describe_model(path)
        assert 1 <= about.format <= FORMAT
        assert about.class_name in str(about)
