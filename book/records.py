"""Where a stored study comes from."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any


def provenance(*packages: str) -> dict[str, Any]:
    """Commit, date, machine, versions of Python and of some packages: stored beside numbers that took long."""
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(),
        "date": date.today().isoformat(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in packages} | {"python": platform.python_version()},
    }
