"""Menus that were trained for the book, with their provenance."""
