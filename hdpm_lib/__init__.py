"""Heterogeneous differential privacy and mechanisms: the algorithms behind the book.

What is most often called stands here, and is imported when it is first used; all else is in the
modules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
