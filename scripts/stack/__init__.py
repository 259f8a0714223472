"""Environments, preflight, rendering and supervision of one stack of real processes.

Pure modules (`plan`, `layout`, `preflight`, `render`, `supervisord`, `readiness`, `answer`) decide;
the others read the machine, run programs and print. Nothing here knows what a request holds except
`answer`, which shows one to the person who asked it.
"""
