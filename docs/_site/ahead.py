"""Notebooks executed ahead of their pages, some at once: else each page waits for its own, and most cores do nothing.

What is executed goes to MyST-NB's cache, where the page finds it. A notebook that fails is not in it: then MyST-NB
executes it for its page, and tells of the failure.
"""

import os
import pathlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import executed
import nbclient
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from sphinx.application import Sphinx

# Each holds its own JAX.
AT_ONCE = min(os.cpu_count() or 1, 4)
_STARTED: dict[str, Future[None]] = {}


def start(app: Sphinx) -> None:
    """Starts the execution of all notebooks that the cache lacks, in the order of their pages."""
    pool, cache = ThreadPoolExecutor(AT_ONCE), get_cache(app.config.nb_execution_cache_path)
    for name in sorted(app.env.found_docs):
        path = pathlib.Path(app.env.doc2path(name))
        if path.suffix not in app.config.nb_custom_formats:
            continue
        how: dict[str, Any] = app.config.nb_custom_formats[path.suffix][1]
        notebook = executed.notebook(path.read_text(encoding="utf-8"), **how)
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            _STARTED[name] = pool.submit(_execute, notebook, path, app)
    pool.shutdown(wait=False)


def wait(app: Sphinx, name: str, source: list[str]) -> None:
    """Waits for a page's notebook, where it has one."""
    if name not in _STARTED:
        return
    try:
        _STARTED[name].result()
    except BaseException:
        cancel()
        raise


def cancel() -> None:
    """Starts no further notebook: the site was stopped, or a page of it failed."""
    for execution in _STARTED.values():
        execution.cancel()


def _execute(notebook: NotebookNode, path: pathlib.Path, app: Sphinx) -> None:
    try:
        # Times in the metadata of cells would make it another notebook to the cache.
        options = {"timeout": app.config.nb_execution_timeout, "record_timing": False}
        nbclient.execute(notebook, cwd=str(path.parent), **options)
    except (CellExecutionError, CellTimeoutError, DeadKernelError):
        return
    cache = get_cache(app.config.nb_execution_cache_path)
    cache.cache_notebook_bundle(CacheBundleIn(notebook, str(path)), check_validity=False, overwrite=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers them with Sphinx."""
    app.connect("env-before-read-docs", lambda app, _env, _names: start(app))
    app.connect("source-read", wait)
    app.connect("build-finished", lambda _app, _failure: cancel())
    return {"parallel_read_safe": False}
