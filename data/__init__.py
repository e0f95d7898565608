"""Claims, printed tables, recorded studies and stand-in statistics of the book."""
