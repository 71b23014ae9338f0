"""Published figures: every table has those of its rows, and its methods name columns that are there."""

import pytest

from mercer.reproduce import TABLES
from mercer.reproduce.datasets import DATASETS


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_published_figures(name):
    table = TABLES[name]
    assert set(table.published.figures) == set(table.rows(False))
    assert set(table.rows(True)) <= set(table.rows(False))


@pytest.mark.parametrize("name", TABLES)
def test_methods_name_columns_of_the_paper(name):
    table = TABLES[name]
    columns = {column for figures in table.published.figures.values() for column in figures}
    for method in table.methods.values():
        assert method.published is None or method.published in columns
    assert any(method.kind == "ours" for method in table.methods.values())
    assert table.published.better in ("lower", "higher")


@pytest.mark.parametrize("name", TABLES)
def test_data_sets_are_described(name):
    table = TABLES[name]
    for row in table.rows(False):
        assert set(table.datasets(row)) <= set(DATASETS)
        assert table.splits(row, True) <= table.splits(row, False)


@pytest.mark.parametrize("name", TABLES)
def test_groups_have_every_method_once(name):
    table = TABLES[name]
    assert sorted(method for group in table.groups() for method in group) == sorted(table.methods)
