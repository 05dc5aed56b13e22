"""What the site takes from other projects: inventories of their pages, for links to them.

An inventory is fetched once, and then kept until `make clean`. Without a network the site is built all the same: a name
that belongs to another project is then text, and no link.
"""

import pathlib
import urllib.request

PAGES = {"jax": "https://docs.jax.dev/en/latest/", "python": "https://docs.python.org/3/"}
SECONDS = 3


def inventories(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Returns the projects whose inventories are at hand, as intersphinx takes them.

    Args:
        folder: where inventories are kept.
    """
    files = {name: _kept(folder / f"{name}.inv", address) for name, address in PAGES.items()}
    return {name: (PAGES[name], str(file)) for name, file in files.items() if file}


def _kept(file: pathlib.Path, address: str) -> pathlib.Path | None:
    if not file.exists():
        try:
            with urllib.request.urlopen(address + "objects.inv", timeout=SECONDS) as answer:
                content = answer.read()
        except OSError:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return file
