from mercer.cli.text import bytes_text, score_text, table_lines


def test_tables_are_aligned():
    assert table_lines(["", "value"], [["accuracy", "98.1 %"], ["R2", "0.5"]]) == [
        "           value",
        "----------------",
        "accuracy  98.1 %",
        "R2           0.5",
    ]


def test_scores_and_sizes():
    assert score_text("accuracy", 0.9812) == "98.1 %"
    assert score_text("RMSE", 12345.6) == "12,346"
    assert score_text("R2", 0.98765) == "0.988"
    assert bytes_text(None) == "-"
    assert [bytes_text(size) for size in (0, 999_499, 1e6, 999_499_999, 1e9)] == [
        "0 kB",
        "999 kB",
        "1 MB",
        "999 MB",
        "1.00 GB",
    ]
