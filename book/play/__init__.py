"""Explorers for the first pages of the chapters."""
