"""Model files: `save_model`, `load_model` and `describe_model`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import mercer
from mercer.errors import ModelFileError
from mercer.io.archive import ArchiveError
from mercer.io.files import open_regular, terminating_cleanly, unresolved, why_not_written
from mercer.io.sealed import SealedArchive, sealed_size, write_sealed
from mercer.model_files.checks import check_usable
from mercer.model_files.decoding import decode
from mercer.model_files.encoding import encode

__all__ = ["FORMAT", "ModelDescription", "describe_model", "load_model", "save_model"]

#: The version of the format that is written. All versions up to it can be read.
FORMAT = 1
LABEL = "mercer model"
# Largest number of characters of a value, of names of features and labels in the header, and of those on a page.
SHOWN, MOST_NAMES, SHOWN_NAMES = 200, 1000, 8


@dataclass(frozen=True)
class ModelDescription:
    """What the header of a model file says about the model. Nothing of it was compared with the model itself.

    Attributes
    ----------
    path : Path
        The file.
    class_name : str
        Class of the model.
    parameters : dict of str to str
        Its parameters, as text.
    is_fitted : bool
        Whether the model is fitted.
    n_features_in : int or None
        Number of features of the rows, if the model is fitted.
    feature_names_in : tuple of str or None
        Their names, if the model was fitted on a data frame; at most 1000 of them.
    classes : tuple of str or None
        The labels of a classifier, as text; at most 1000 of them.
    size : int
        Size of the file in bytes.
    n_arrays, array_bytes : int
        Number of the arrays, and their total size.
    format : int
        Version of the format of the file.
    version : str
        Version of mercer that wrote the file.
    libraries : dict of str to str
        Versions of the libraries with which it was written.
    metadata : dict
        What `save_model` was given as `metadata`.
    """

    path: Path
    class_name: str
    parameters: dict[str, str]
    is_fitted: bool
    n_features_in: int | None
    feature_names_in: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    size: int
    n_arrays: int
    array_bytes: int
    format: int
    version: str
    libraries: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = "fitted" if self.is_fitted else "not fitted"
        if self.n_features_in is not None:
            rows += f" on rows of {self.n_features_in:,} features"
        with_ = ", ".join(f"{name} {version}" for name, version in self.libraries.items())
        lines = {
            "model": f"{self.class_name}, {rows}",
            "features": _names(self.feature_names_in),
            "classes": _names(self.classes),
            "file": str(self.path),
            "size": f"{self.size:,} bytes, {self.n_arrays} arrays of {self.array_bytes:,} bytes in total",
            "format": f"{self.format}, written by mercer {self.version}" + (f" with {with_}" if with_ else ""),
        }
        sections = [
            "\n".join(f"{name:<10}{_printable(text)}" for name, text in lines.items() if text is not None),
            _section("parameters", self.parameters),
            _section("metadata", {name: json.dumps(value) for name, value in self.metadata.items()}),
        ]
        return "\n\n".join(section for section in sections if section)


def _names(names: tuple[str, ...] | None) -> str | None:
    """Return the first names of a list, or None if there is no list."""
    if names is None:
        return None
    more = f", ... ({len(names):,} names)" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


def _section(title: str, values: Mapping[str, str]) -> str:
    """Return lines of names and values, or nothing if there are none."""
    if not values:
        return ""
    width = max(map(len, values)) + 2
    return "\n".join([title, *(f"  {_printable(name):<{width}}{_printable(one)}" for name, one in values.items())])


def _printable(text: str) -> str:
    """Return the start of a text of a file, without characters that control a terminal."""
    short = text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}..."
    return "".join(one if one.isprintable() else "?" for one in short)


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    statistics: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model to a file, from which `load_model` reads it without executing code.

    Maps, kernels, learners, transformers of columns, automatic models and pipelines of these can be written, fitted or
    not. A model that is read again predicts the same bits as the original does in the same environment. On another
    processor it predicts the bits that the original would predict there, since all drawn numbers are stored: the same
    ones with AVX2 and AVX-512, and equal ones up to rounding without these instructions, or with another BLAS.

    The file is written completely or not at all: a reader sees the previous file or the new one, also if the process
    is interrupted or the disk is full. It has SHA-256 digests of its contents, which detect damage. They are no
    signature: they do not show where a file comes from.

    Parameters
    ----------
    model : estimator or kernel
        The model. Functions of users, as in a `CallableKernel` or as `progress`, and classes outside of mercer cannot
        be stored, and neither can rows that were left in their source by ``LocalCorrection(rows="source")``.
    path : path-like
        The file to write, by convention with the suffix ``.mercer``. Missing folders are created.
    statistics : bool, default=False
        Whether to store the sums over rows, `statistic_`, from which `partial_fit` continues. They are not needed for
        predictions, and take D (D + 1) / 2 numbers for D components. Without them, `partial_fit` of the model that is
        read raises an error. A model that was not used since `partial_fit` is always stored with its sums.
    metadata : mapping of str to JSON values, default=None
        What else the file should say about the model, for `describe_model`.

    Returns
    -------
    Path
        The absolute path of the file.

    See Also
    --------
    load_model : Read a model.
    describe_model : Read what a file says about its model.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mercer import KernelRidge, load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRidge(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, f"{folder}/sine.mercer")
    ...     again = load_model(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    target = unresolved(path)
    if isinstance(model, type) or not hasattr(model, "get_params"):
        msg = (
            "save_model: model must be an estimator or a kernel of mercer, or a pipeline of these, got "
            f"{_shown(model)}. Save other objects with pickle or joblib."
        )
        raise ModelFileError(msg)
    encoded = encode(model, statistics=statistics)
    content = {
        "format": FORMAT,
        "mercer": mercer.__version__,
        "libraries": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "about": _about(model),
        "metadata": _json_metadata(metadata),
        "objects": encoded.objects,
    }
    try:
        with terminating_cleanly():
            write_sealed(target, LABEL, content, encoded.arrays)
    except ArchiveError as error:
        msg = f"save_model: {target} was not written: {error}. Save the model with pickle or joblib."
        raise ModelFileError(msg) from error
    except OSError as error:
        why = why_not_written(error, target, sealed_size(content, encoded.arrays))
        state = "The previous file is unchanged" if os.path.lexists(target) else "No file was left behind"
        msg = f"save_model: {target} cannot be written: {why}. {state}. Make space, or use another path."
        raise ModelFileError(msg) from error
    return target


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model from a file of `save_model`. No code is executed, and nothing is imported by a name in the file.

    All digests are compared first, and all sizes before memory is allocated. Attributes must have the types that their
    classes declare, and a fitted model must predict two rows of zeros before it is returned, so that a model whose
    arrays do not fit together is refused here. The author of a file can nevertheless choose the model: predictions of
    a file from a stranger are those of a stranger.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator or kernel
        The model, in the state in which it was saved.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, forged, or written by a newer version of mercer.

    See Also
    --------
    save_model : Write a model.

    Examples
    --------
    >>> import tempfile
    >>> from mercer import Gaussian, load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_model(save_model(Gaussian(0.5), f"{folder}/kernel.mercer"))
    Gaussian(lengthscale=0.5)
    """
    with _opened("load_model", path) as (archive, _):
        model = decode(archive.content.get("objects"), archive.arrays(), archive.content["format"])
        if not hasattr(model, "get_params"):
            msg = f"it has a {type(model).__name__}, which is no model"
            raise ArchiveError(msg)
        check_usable(model)
        return model


def describe_model(path: str | os.PathLike[str]) -> ModelDescription:
    """Return what a model file says about its model, without reading its arrays; ``print`` shows it on one page.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    ModelDescription

    Raises
    ------
    ModelFileError
        If the file is missing, damaged apart from its arrays, or written by a newer version of mercer.

    Examples
    --------
    >>> import tempfile
    >>> from mercer import Gaussian, describe_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     about = describe_model(save_model(Gaussian(0.5), f"{folder}/kernel.mercer"))
    >>> about.class_name, about.parameters
    ('Gaussian', {'lengthscale': '0.5'})
    >>> print(about)  # doctest: +ELLIPSIS
    model     Gaussian, not fitted
    file      ...kernel.mercer
    size      ... bytes, 0 arrays of 0 bytes in total
    format    1, written by mercer ...
    <BLANKLINE>
    parameters
      lengthscale  0.5
    """
    with _opened("describe_model", path) as (archive, size):
        content, about = archive.content, archive.content["about"]
        names, classes = about["feature_names_in"], about["classes"]
        n_features = about["n_features_in"]
        return ModelDescription(
            path=Path(path).resolve(),
            class_name=str(about["class"]),
            parameters={str(name): str(value) for name, value in about["parameters"].items()},
            is_fitted=about["is_fitted"] is True,
            n_features_in=None if n_features is None else int(n_features),
            feature_names_in=None if names is None else tuple(map(str, names)),
            classes=None if classes is None else tuple(map(str, classes)),
            size=size,
            n_arrays=len(archive.layouts),
            array_bytes=sum(layout.nbytes for layout in archive.layouts),
            format=content["format"],
            version=str(content["mercer"]),
            libraries={str(name): str(version) for name, version in content["libraries"].items()},
            metadata=dict(content["metadata"]),
        )


@contextmanager
def _opened(function: str, path: str | os.PathLike[str]) -> Iterator[tuple[SealedArchive, int]]:
    """Open a model file and check its version; raise ModelFileError, on one line, for whatever is wrong with it."""
    shown = os.fspath(path)
    file: IO[bytes] | None = None
    try:
        file = open_regular(Path(path).resolve())  # a link to a model file is followed
        archive = SealedArchive(file, LABEL)
        _check_format(archive.content, function, shown)
        yield archive, os.fstat(file.fileno()).st_size
    except ModelFileError:
        raise
    except OSError as error:
        msg = f"{function}: {shown} cannot be read: {error.strerror or error}."
        raise ModelFileError(msg) from error
    except MemoryError as error:
        msg = f"{function}: {shown} does not fit into memory."
        raise ModelFileError(msg) from error
    # What is wrong with a forged header can be more than can be listed.
    except Exception as error:
        why = str(error) if isinstance(error, ArchiveError) else f"{type(error).__name__}: {error}"
        msg = (
            f"{function}: {shown} is not a model file, or it is damaged: {' '.join(why.split())[:500]}. Use a copy of "
            "the file, or save the model again."
        )
        raise ModelFileError(msg) from error
    finally:
        if file is not None:
            file.close()


def _check_format(content: Any, function: str, path: str) -> None:
    """Raise an error if this version does not read the format of a file."""
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        msg = "its header has no version of the format"
        raise ArchiveError(msg)
    if version > FORMAT:
        writer = str(content.get("mercer"))[:40]
        msg = (
            f"{function}: {path} has format {version}, written by mercer {writer}, and this version, mercer "
            f"{mercer.__version__}, reads formats up to {FORMAT}. Install mercer {writer} or later."
        )
        raise ModelFileError(msg)


def _about(model: Any) -> dict[str, Any]:
    """Return what the header says about a model."""
    fitted = vars(model)
    if type(model).__name__ == "Pipeline" and fitted.get("steps"):
        fitted = vars(fitted["steps"][0][1])
    names = fitted.get("feature_names_in_")
    classes = vars(model).get("classes_")
    return {
        "class": type(model).__name__,
        "parameters": {name: _shown(value) for name, value in sorted(model.get_params(deep=False).items())},
        "is_fitted": any(name.endswith("_") and not name.startswith("__") for name in fitted),
        "n_features_in": int(fitted["n_features_in_"]) if "n_features_in_" in fitted else None,
        "feature_names_in": None if names is None else [str(name) for name in names[:MOST_NAMES]],
        "classes": None if classes is None else [str(label) for label in classes[:MOST_NAMES]],
    }


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _json_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as JSON values; raise ModelFileError if they are not."""
    try:
        return dict(json.loads(json.dumps(dict(metadata or {}), allow_nan=False)))
    except (TypeError, ValueError) as error:
        msg = (
            f"save_model: metadata must be a mapping of strings to JSON values (strings, finite numbers, booleans, "
            f"None, lists and dictionaries of these): {error}."
        )
        raise ModelFileError(msg) from error
