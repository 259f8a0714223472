"""Benches: each module measures one claim, prints a table, and ends with one JSON object."""
