import pyarrow as pa
import pytest

from mercer.io.tables.cells import KINDS, ambiguous_dates, arrow_type, best_kind, converted, possible


def kind_of(*cells):
    kinds, has_codes = possible(pa.array(cells), KINDS)
    return best_kind(kinds, has_codes=has_codes)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "30"], "integer"),
        (["0", "1"], "integer"),
        (["1", "2.5", "1e3", "-inf", "+7"], "number"),
        (["99999999999999999999999", "1"], "number"),
        (["01234", "99999"], "string"),
        (["-07", "12"], "string"),
        (["0.5", "007"], "number"),
        (["0x10", "1"], "string"),
        (["nan(1)", "1"], "string"),
        (["1_000"], "string"),
        (["1.2.3"], "string"),
        (["true", "FALSE"], "boolean 0"),
        (["Yes", "no"], "boolean 1"),
        (["yes", "false"], "string"),
        (["yes", "maybe"], "string"),
        (["2024-12-31", "2024-01-01T10:00"], "iso"),
        (["2024-12-31 23:59:59.5"], "iso"),
        (["2024-12-31T23:59:00Z", "2024-12-31T23:59:00+02:00"], "iso utc"),
        (["31.12.2024", "1.2.2024"], "%d.%m.%Y"),
        (["12/31/2024", "1/2/2024"], "%m/%d/%Y"),
        (["31/12/2024", "1/2/2024"], "%d/%m/%Y"),
        (["31/12/24"], "string"),
        (["31 Dec 2024"], "%d %b %Y"),
        (["31.12.2024 10:30"], "%d.%m.%Y %H:%M"),
        (["2024-13-01"], "string"),
        (["a", "1"], "string"),
    ],
)
def test_kind_of_a_column_is_that_of_all_its_cells(cells, kind):
    assert kind_of(*cells) == kind
    assert kind_of(*reversed(cells)) == kind


def test_comma_is_a_decimal_point_only_if_the_file_has_another_delimiter():
    kinds, _ = possible(pa.array(["1,5", "2"]), KINDS)
    assert best_kind(kinds, has_codes=False) == "comma"
    assert converted(pa.array(["1,5", None]), "comma").to_pylist() == [1.5, None]


def test_dates_of_both_orders_are_ambiguous_until_a_day_is_above_12():
    both, _ = possible(pa.array(["1/2/2024", "3/4/2024"]), KINDS)
    one, _ = possible(pa.array(["1/2/2024", "13/4/2024"]), KINDS)
    assert ambiguous_dates(both)
    assert not ambiguous_dates(one)


@pytest.mark.parametrize("kind", [*KINDS, "string", "missing"])
def test_missing_cells_stay_missing(kind):
    cells = pa.array([None, None], pa.string())
    assert converted(cells, kind).null_count == 2
    assert converted(cells, kind).type == arrow_type(kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "string"])
def test_other_cells_are_refused(kind):
    with pytest.raises(pa.ArrowInvalid):
        converted(pa.array(["no such thing"]), kind)
