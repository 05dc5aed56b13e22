"""The documentation site, which `make docs` builds: these pages, the notebooks executed, and docstrings as a reference.

`docs/learn` is the folder of notebooks: a new `notebooks/NN_name.py` is a page of the site without an edit here. The
pages are read on GitHub as well, so links among them are ordinary Markdown.
"""

import gc
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILT, OWN = HERE.parent / ".site", [str(HERE / "_site"), str(HERE.parent)]
sys.path[:0] = OWN
# Kernels of notebooks inherit these: nothing waits for an accelerator, `import meshlab` is this clone, and what lessons
# compile is compiled quickly, and once for all of them.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(BUILT / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*OWN, os.environ.get("PYTHONPATH")]))

# A fifth of Sphinx's time went into collections, which found nothing to free.
gc.disable()

import executed  # noqa: E402 - found by the path above
import kernels  # noqa: E402
import others  # noqa: E402

from meshlab.engine.devices import QUICK_COMPILES  # noqa: E402
from meshlab.version import __version__  # noqa: E402

os.environ.setdefault("XLA_FLAGS", QUICK_COMPILES)

project = author = "meshlab"
release = version = __version__
extensions = [
    *("myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"),
    *("ahead", "boards", "docstrings", "terms"),
]
exclude_patterns = ["conf.py", "_site"]

# Pages: anchors as GitHub makes them.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# What was executed, by what this clone executes; `make clean` removes it.
VERSION = BUILT / "executed" / executed.fingerprint(HERE.parent / "meshlab", HERE / "_site")

# Boards that are dragged on a page are written here, and copied with the site.
BOARDS = VERSION / "extra" / "boards"
BOARDS.mkdir(parents=True, exist_ok=True)
meshlab_boards = str(BOARDS)
html_extra_path = [str(BOARDS.parent)]

# Notebooks: executed where their code, or meshlab, has changed since.
kernels.copy()
nb_custom_formats = {".py": ["executed.notebook", {"boards": str(BOARDS), "to_root": "../"}]}
nb_execution_mode = "cache"
nb_execution_cache_path = str(VERSION / "cache")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
# A view of a board is its picture: the live widget needs a kernel, and would load its manager from the network.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js = {}

# Reference: docstrings, in the order of the sources; JAX's types are links where its inventory is at hand.
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
intersphinx_mapping = others.inventories(BUILT / "inventories")

html_theme = "pydata_sphinx_theme"
html_title = f"meshlab {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["theme.js"]
html_sidebars = {"index": [], "start": []}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": [],
    "footer_end": [],
}
