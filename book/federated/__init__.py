"""Experiments of the FL-Market chapter."""

from importlib import resources
from pathlib import Path

RECORDED = Path(str(resources.files("hdpm_book.data") / "studies"))
"""What the longer studies found: they are not run again for the book."""
