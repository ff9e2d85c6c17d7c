"""Boxes and words on a picture, drawn by matplotlib through its object API. Lengths are pixels of CSS, y grows down.

matplotlib is of the extra ``report``, and is imported only when a picture is made.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisect_torch.errors import UsageError
from bisect_torch.report.text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

_PIXELS_PER_INCH = 96  # of CSS
_POINTS_PER_PIXEL = 72 / _PIXELS_PER_INCH
_FAMILY = ("DejaVu Sans", "sans-serif")
"""The first comes with matplotlib, so that a PNG is the same everywhere; the second is for viewers of an SVG."""
_SETTINGS: Any = {
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],  # from one as wide to narrower ones
    "text.parse_math": False,  # a name with two dollar signs is no formula
    "svg.fonttype": "none",  # words stay words: they can be searched and read aloud
    "svg.hashsalt": "bisect-torch",  # the same picture has the same bytes
}


@dataclass(frozen=True)
class Box:
    """A filled rectangle; ``edge`` is the colour of its border, if it has one."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    edge: str = "none"


@dataclass(frozen=True)
class Words:
    """One line of text.

    Args:
        x: Of its left end, or of its middle when ``centred``.
        y: Of its baseline; when ``upright``, of its lower end.
        upright: It runs from the bottom to the top, and ``x`` is its middle.
    """

    x: float
    y: float
    text: str
    size: float
    bold: bool = False
    colour: str = "#1f2328"
    centred: bool = False
    upright: bool = False


Shape = Box | Words


def shown(text: str) -> str:
    """The text as a picture can show it: what has no glyph in the font, or must not be shown, as its escape."""
    _matplotlib()
    charmap = _charmap()
    return "".join(char if ord(char) in charmap else _escape(char) for char in clean(text))


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that a text needs."""
    from matplotlib.textpath import text_to_path

    return float(text_to_path.get_text_width_height_descent(text, _font(size, bold), ismath=False)[0])


def ellipsised(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, without as much of its middle as it takes to fit into ``room`` pixels."""
    if width(text, size, bold=bold) <= room:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        kept = (fits + too_long) // 2
        if width(_without_middle(text, kept), size, bold=bold) <= room:
            fits = kept
        else:
            too_long = kept
    return _without_middle(text, fits)


def as_svg(shapes: list[Shape], width_px: float, height_px: float, title: str) -> str:
    """A drawing whose natural size in a browser is the given one."""
    with _figure(shapes, width_px, height_px) as figure:
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Title": title, "Creator": "bisect-torch", "Date": None})
        return buffer.getvalue()


def as_png(shapes: list[Shape], width_px: float, height_px: float, title: str, scale: int) -> bytes:
    """A picture with ``scale`` dots for each pixel, so that it is sharp on dense screens and where it is enlarged."""
    with _figure(shapes, width_px, height_px) as figure:
        buffer = io.BytesIO()
        metadata = {"Title": title, "Software": "bisect-torch"}
        figure.savefig(buffer, format="png", dpi=_PIXELS_PER_INCH * scale, metadata=metadata)
        return buffer.getvalue()


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        from bisect_torch.uv_program import install_line

        raise UsageError("a picture needs matplotlib", hint=install_line("matplotlib")) from error


@contextmanager
def _figure(shapes: list[Shape], width_px: float, height_px: float) -> Iterator[Figure]:
    """All of it drawn. The user's own matplotlib settings do not count, and are left as they are."""
    _matplotlib()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        size = (width_px / _PIXELS_PER_INCH, height_px / _PIXELS_PER_INCH)
        figure = Figure(figsize=size, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, width_px)
        axes.set_ylim(height_px, 0)
        for shape in shapes:
            if isinstance(shape, Box):
                corner = (shape.x, shape.y)
                axes.add_patch(
                    Rectangle(corner, shape.width, shape.height, facecolor=shape.fill, edgecolor=shape.edge, lw=0.75)
                )
                continue
            axes.text(
                shape.x,
                shape.y,
                shape.text,
                fontproperties=_font(shape.size * _POINTS_PER_PIXEL, shape.bold),
                color=shape.colour,
                horizontalalignment="center" if shape.centred or shape.upright else "left",
                verticalalignment="bottom" if shape.upright else "baseline",
                rotation=90 if shape.upright else 0,
            )
        yield figure


@functools.cache
def _font(size: float, bold: bool) -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=list(_FAMILY), size=size, weight="bold" if bold else "normal")


@functools.cache
def _charmap() -> frozenset[int]:
    """Characters that both weights can show."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset.intersection(*(frozenset(get_font(findfont(_font(10, bold))).get_charmap()) for bold in (0, 1)))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _without_middle(text: str, kept: int) -> str:
    head, tail = (kept + 1) // 2, kept // 2
    return text[:head] + "…" + (text[-tail:] if tail else "")
