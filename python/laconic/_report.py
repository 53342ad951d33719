"""The page of charts of the program `laconic report`, made from Python."""

from __future__ import annotations

import importlib.util
import os
import pathlib
from collections.abc import Iterable

from . import _core
from ._files import write_whole

Path = str | os.PathLike[str]

_PARTS = ("style", "data", "plotly", "script")  # in the order of the page


def report(runs: Path | Iterable[Path], out: Path = "report.html", *, plotly: Path | None = None) -> pathlib.Path:
    """Writes one self-contained page with the runs' charts, which opens without a network. Not collective: one rank.

    Args:
        runs: folders of runs, or folders of such folders: of `laconic.RunLog`, or of the program's `train --out`. A run
            that is still going is drawn as far as it went.
        out: the page.
        plotly: `plotly.min.js`; default: the one that laconic was built with, or that of the Python package plotly.

    Returns:
        Where the page is.

    Raises:
        InvalidConfig: a folder that holds no run, files in it that are damaged or nested more than 64 deep, no
            plotly.min.js, or a laconic that was built without the report.
    """
    if not hasattr(_core, "report_json"):
        raise _core.InvalidConfig(
            "this laconic was built without the report, which needs nlohmann-json (nlohmann-json3-dev): "
            "install it and build laconic again"
        )
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    parts = {
        "style": (_page() / "page.css").read_text(encoding="utf-8"),
        "script": (_page() / "page.js").read_text(encoding="utf-8"),
        "plotly": _plotly(plotly).read_text(encoding="utf-8"),
        "data": _core.report_json([os.fspath(folder) for folder in folders]),
    }
    rest = (_page() / "page.html").read_text(encoding="utf-8")
    page = []
    for part in _PARTS:  # what is put in is not searched again
        before, _, rest = rest.partition("{{" + part + "}}")
        page += [before, parts[part]]
    write_whole(out, "".join(page) + rest)
    return pathlib.Path(out)


def _page() -> pathlib.Path:
    return pathlib.Path(__file__).parent / "page"


def _plotly(given: Path | None) -> pathlib.Path:
    if given is not None:
        return pathlib.Path(given)
    built_in = _page() / "plotly.min.js"
    if built_in.exists():
        return built_in
    package = importlib.util.find_spec("plotly")
    if package is not None and package.origin is not None:
        beside = pathlib.Path(package.origin).parent / "package_data" / "plotly.min.js"
        if beside.exists():
            return beside
    raise _core.InvalidConfig("the report needs plotly.min.js: pip install plotly, or give its path as plotly=")
