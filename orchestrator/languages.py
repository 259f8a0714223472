"""What the request plane knows of languages: names, file endings, and how their blocks end.

A closed list, so that a record or a metric can name a language without holding what a client sent.
"""

from __future__ import annotations

OTHER = "other"

_ENDINGS = {
    "bash": ("sh", "bash"),
    "c": ("c", "h"),
    "cpp": ("cc", "cpp", "cxx", "hh", "hpp"),
    "csharp": ("cs",),
    "css": ("css",),
    "go": ("go",),
    "html": ("html", "htm"),
    "java": ("java",),
    "javascript": ("js", "cjs", "mjs"),
    "json": ("json",),
    "jsx": ("jsx",),
    "kotlin": ("kt", "kts"),
    "makefile": ("mk",),
    "markdown": ("md",),
    "php": ("php",),
    "python": ("py", "pyi"),
    "ruby": ("rb",),
    "rust": ("rs",),
    "scala": ("scala",),
    "sql": ("sql",),
    "swift": ("swift",),
    "toml": ("toml",),
    "tsx": ("tsx",),
    "typescript": ("ts", "mts", "cts"),
    "yaml": ("yaml", "yml"),
}
_BY_ENDING = {ending: language for language, endings in _ENDINGS.items() for ending in endings}
_BY_NAME = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "javascriptreact": "jsx",
    "typescriptreact": "tsx",
    "shellscript": "bash",
    "c++": "cpp",
    "c#": "csharp",
}

INDENTED = frozenset({"python", "yaml", "makefile"})
"""Languages whose blocks end where the indentation falls."""


def language_of(named: str, path: str) -> str:
    """The language's name in our list: as the client names it, else by the file's ending."""
    named = _BY_NAME.get(named.lower(), named.lower())
    if named in _ENDINGS:
        return named
    file_name = path.replace("\\", "/").rpartition("/")[2].lower()
    by_name = _BY_NAME.get(file_name)
    return by_name or _BY_ENDING.get(file_name.rpartition(".")[2], OTHER)
