"""One module for each command; `_run` starts them."""
