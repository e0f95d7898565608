"""Experiments of the FL-Market chapter."""

from hdpm_book.records import STUDIES

RECORDED = STUDIES
"""What the longer studies found: they are not run again for the book."""
