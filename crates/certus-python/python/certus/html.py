"""A fit in a notebook: the certificate first, then the parameters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

COLOURS = {"proved": "#1a7f37", "probable": "#0969da", "estimated": "#9a6700", "none": "#cf222e"}
VERDICTS = {"accurate": "#1a7f37", "usable after correction": "#0969da", "unreliable": "#cf222e", "failed": "#cf222e"}
LISTED = 30


def page(record: dict[str, Any], level: str, sentences: list[str], table: pd.DataFrame, note: str = "") -> str:
    """A self-contained piece of HTML that follows the reader's theme; the note is below the table."""
    colour = COLOURS[level] if record["status"] == "reached" else COLOURS["none"] if level == "none" else COLOURS["estimated"]
    colour = VERDICTS.get(record.get("verdict") or "", colour)
    first, rest = sentences[0], sentences[1:]
    lines = "".join(f"<div>{escape(line)}</div>" for line in rest)
    head = "".join(f"<th style='text-align:right;padding:2px 10px'>{h}</th>" for h in ("mean", "sd", "5 %", "95 %"))
    rows = "".join(_row(str(name), values) for name, values in table[:LISTED].iterrows())
    more = len(table) - LISTED
    below = [f"and {more} more: fit.summary()"] * (more > 0) + [note] * bool(note)
    foot = "".join(f"<div style='opacity:.7'>{escape(line)}</div>" for line in below)
    rows_used = record["data"]["rows"]
    about = f"{escape(record['model'])}, status {escape(record['status'])}" + (f", {rows_used} rows" if rows_used is not None else "")
    return (
        "<div style='font-family:system-ui,sans-serif;max-width:46em'>"
        f"<div style='border-left:4px solid {colour};padding:4px 12px;margin:4px 0'>"
        f"<div style='font-weight:600;color:{colour}'>{escape(first[0].upper() + first[1:])}</div>{lines}"
        f"<div style='opacity:.7'>{about}: {escape(record['message'])}</div></div>"
        f"<table style='border-collapse:collapse;font-variant-numeric:tabular-nums'><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{foot}</div>"
    )


def _row(name: str, values: Any) -> str:
    cells = "".join(
        f"<td style='text-align:right;padding:2px 10px'>{'' if values[k] != values[k] else f'{values[k]:.4g}'}</td>" for k in ("mean", "sd", "q05", "q95")
    )
    return f"<tr><td style='text-align:left;padding:2px 10px'>{escape(name)}</td>{cells}</tr>"
