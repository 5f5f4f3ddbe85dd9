"""An HTML page as PDF, on numbered sheets, with a footer and any banner on each.

WeasyPrint lays it out (the extra ``pdf``). It fetches nothing and writes no time: with the same
versions of WeasyPrint, its libraries and the fonts, equal pages have equal bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources

from monitor.errors import SlicewatchError
from monitor.present.pdf_drawings import for_sheets

_SHEETS = "pdf.css"
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_SYNTHETIC = '@page { @top-center { content: "SYNTHETIC: declared test conditions"; } }'
_DATE = "SOURCE_DATE_EPOCH"
_MISSING = (
    '--format pdf needs a package that is not installed: pip install "slicewatch[pdf]";'
    " it also needs the system's Pango, on Debian libpango-1.0-0 and libpangoft2-1.0-0"
)


def sheets(page: str, footer: str, *, synthetic: bool, seconds: int) -> bytes:
    """Return an HTML page as PDF bytes.

    Args:
        page: HTML.
        footer: text at the bottom of each sheet.
        synthetic: whether each sheet says that it is about declared test conditions.
        seconds: Unix time of the content, which the PDF has as its date.

    Raises:
        SlicewatchError: WeasyPrint or a library that it needs is not installed.
    """
    try:
        import weasyprint  # noqa: PLC0415 - optional, and slow to load
        from weasyprint.urls import URLFetcher  # noqa: PLC0415
    except (ImportError, OSError):  # OSError: a system library is missing
        raise SlicewatchError(_MISSING) from None
    fetcher = URLFetcher(allowed_protocols=())
    page = for_sheets(page, "".join(_STYLE.findall(page)))
    css = weasyprint.CSS(string=_sheet_css(footer, synthetic=synthetic), url_fetcher=fetcher)
    with _fixed_time(seconds):
        pdf: bytes = weasyprint.HTML(string=page, url_fetcher=fetcher).write_pdf(
            stylesheets=[css],
            pdf_identifier=hashlib.sha256(page.encode()).digest()[:16],
            pdf_tags=True,
        )
    return pdf


def _sheet_css(footer: str, *, synthetic: bool) -> str:
    """Return the CSS of printed sheets, with a text at their bottom."""
    style = (resources.files(str(__package__)) / _SHEETS).read_text(encoding="utf-8")
    style += f'@page {{ @bottom-left {{ content: "{footer}"; }} }}'
    return style + (_SYNTHETIC if synthetic else "")


@contextmanager
def _fixed_time(seconds: int) -> Iterator[None]:
    """Set the date in the environment to ``seconds`` for the block; the PDF libraries read it."""
    before = os.environ.get(_DATE)
    os.environ[_DATE] = str(seconds)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DATE]
        else:
            os.environ[_DATE] = before
