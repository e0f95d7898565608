"""What the pages of the reference show beside the documentation of the functions."""
