"""What the recipes compare."""
