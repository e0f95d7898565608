"""Claims, printed tables and stand-in statistics, shipped with the library."""
