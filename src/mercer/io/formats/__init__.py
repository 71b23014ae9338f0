"""Readers of the file formats that `mercer.open_rows` supports."""
