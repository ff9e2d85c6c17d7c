"""What is written into the page: JSON that cannot end its element, scripts and styles with their hashes. No network."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources

_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

SCRIPTS = ("elements.js", "results.js", "grid.js", "facets.js", "plots.js", "detail.js", "app.js")
"""Own scripts, in the order in which they are joined to one."""

UPLOT = "1.6.32"
"""Version of the vendored plot library. A newer one replaces the files in ``vendor/uplot``, this, and the hashes below;
it must go on without ``innerHTML``, which the page's policy forbids."""

VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the vendored files, as its authors published them."""


def as_json(document: object) -> str:
    """JSON for a ``<script type="application/json">``: pure ASCII, without ``<``, ``>`` and ``&``."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


@cache
def text_of(*path: str) -> str:
    """The text of a file of this package."""
    return resources.files(__package__).joinpath(*path).read_text(encoding="utf-8")


@cache
def own_script() -> str:
    """All own scripts in one function, so that none of their names is global."""
    parts = "\n".join(text_of("assets", name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


@cache
def plot_script() -> str:
    """The code of the library that plots."""
    return text_of("vendor", "uplot", "uPlot.iife.min.js")


@cache
def style() -> str:
    """The style sheets of the page and of that library."""
    return text_of("vendor", "uplot", "uPlot.min.css") + "\n" + text_of("assets", "style.css")


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style that may be used."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """Nothing is loaded, nothing is sent, and no other script than these two runs."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {source_hash(plot_script())} {source_hash(own_script())}",
            f"style-src {source_hash(style())}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
