"""Figures for print as files: SVG, PDF and PNG, and what they need for that."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from meshlab.widgets.documents.document import ExplorerError
from tests.widgets.printed import of_digits


def test_a_figure_is_saved_as_svg_pdf_and_png(tmp_path: Path) -> None:
    figure = of_digits().figure("timeline", width_mm=85)
    for kind in ("svg", "pdf", "png"):
        figure.save(tmp_path / f"figure.{kind}")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8") == figure.svg == figure._repr_svg_()
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    sizes = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert sizes
    assert float(sizes[1]) == pytest.approx(85 / 25.4 * 72, abs=0.1)
    assert float(sizes[2]) == pytest.approx(figure.height_mm / 25.4 * 72, abs=0.1)
    assert b"/BaseFont" in pdf  # its texts are texts
    png = (tmp_path / "figure.png").read_bytes()
    assert struct.unpack(">II", png[16:24])[0] == pytest.approx(85 / 25.4 * 300, abs=1)
    figure.save(tmp_path / "small.PNG", dpi=72)
    assert struct.unpack(">II", (tmp_path / "small.PNG").read_bytes()[16:24])[0] == pytest.approx(241, abs=1)
    assert repr(figure) == f"PrintFigure(timeline, 85 × {figure.height_mm:.0f} mm)"


def test_what_cannot_be_saved_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = of_digits().figure("layout", width_mm=85)
    with pytest.raises(ExplorerError, match=r"the name must end in .*\.svg.*\.pdf.*\.png"):
        figure.save(tmp_path / "figure.eps")
    with pytest.raises(ExplorerError, match=r"figure.png\(\) was given dpi=0; it must be a number from 36 to 2400"):
        figure.png(dpi=0)
    with pytest.raises(ExplorerError, match=r"save\(\) cannot write .*figure.svg"):
        figure.save(tmp_path / "no folder" / "figure.svg")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ExplorerError, match=r"the extra meshlab\[print\], which this Python does not have: .*pip"):
        figure.save(tmp_path / "figure.pdf")
    figure.save(tmp_path / "figure.svg")


def test_neither_plotly_nor_the_converter_is_imported() -> None:
    code = (
        "import sys; from tests.widgets import small; small.on_v5e().figure('timeline', width_mm=85).svg;"
        "sys.exit(any(name in sys.modules for name in ('plotly', 'vl_convert')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4])
