"""Sections of a page that benchmarks write, between `<!-- name: begin -->` and `<!-- name: end -->`; their figures."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        name: in its marks.
    """

    name: str

    @property
    def begin(self) -> str:
        """The mark before it."""
        return f"<!-- {self.name}: begin -->"

    @property
    def end(self) -> str:
        """The mark behind it."""
        return f"<!-- {self.name}: end -->"

    def read(self, path: pathlib.Path) -> str:
        """Returns the text between the marks.

        Raises:
            ValueError: the page has no marks.
        """
        return self._parts(path)[1].strip("\n")

    def write(self, path: pathlib.Path, text: str) -> None:
        """Puts a text between the marks; see `read`."""
        before, _, after = self._parts(path)
        path.write_text(f"{before}{self.begin}\n{text}\n{self.end}{after}")

    def write_or_print(self, text: str, arguments: Sequence[str]) -> None:
        """Puts a text between the marks of the page that a command line names, or prints it; see `read`."""
        if arguments:
            self.write(pathlib.Path(arguments[0]), text)
        else:
            print(text)

    def figure(self, path: pathlib.Path) -> pathlib.Path:
        """Returns where the section's figure is: beside the page, among its images."""
        return path.parent / "images" / f"{path.stem}-{self.name}.svg"

    def draw(self, path: pathlib.Path, svg: str) -> None:
        """Puts a figure where the page looks for it."""
        self.figure(path).parent.mkdir(exist_ok=True)
        self.figure(path).write_text(svg)

    def _parts(self, path: pathlib.Path) -> tuple[str, str, str]:
        page = path.read_text()
        before, begun, rest = page.partition(self.begin)
        between, ended, after = rest.partition(self.end)
        if not begun or not ended:
            raise ValueError(
                f"{path} has no lines {self.begin} and {self.end}, between which the section is to be written."
            )
        return before, between, after
