"""Experiments of the chapter on one market for all papers."""
