from scripts.stack.supervisor import clean_environment


def test_a_stack_inherits_neither_proxies_nor_a_foreign_import_path() -> None:
    environ = {"PATH": "/bin", "http_proxy": "http://proxy", "PYTHONPATH": "/mine", "SECRET": "x"}
    assert clean_environment(environ, "/ours") == {
        "PATH": "/bin",
        "PYTHONPATH": "/ours",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
