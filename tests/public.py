"""The public names of the library, apart from what other tests share: who asks for them depends on
all of it.
"""

from __future__ import annotations

from types import ModuleType

import hdpm_lib


def public_names() -> list[str]:
    """Return what can be imported from the library itself, its modules aside."""
    return [
        name for name in hdpm_lib.__all__ if not isinstance(getattr(hdpm_lib, name), ModuleType)
    ]
