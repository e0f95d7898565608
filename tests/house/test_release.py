"""What files say of version, day, authors and addresses agrees, and a release is packed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import release

ROOT = Path(__file__).resolve().parents[2]
LOOKS_AT = [
    "CHANGELOG.md",
    "CITATION.cff",
    "README.md",
    "_config.yml",
    "book/_ext/package.py",
    "hdpm_lib/__init__.py",
    "pyproject.toml",
    "tests/release.py",
]
DAY = "2027-01-31"
SITE = "https://example.org/book/"
# Before any release, and without addresses.
FILES = {
    "CHANGELOG.md": f"# Changes\n\n{release.NOT_YET}; dates are those of the repository.\n",
    "CITATION.cff": "title: Us\nauthors:\n  - name: The authors\nversion: 0.1.0\nlicense: MIT\n",
    "README.md": f"# Us\n\n{release.NO_ADDRESS} for questions.\n",
    "_config.yml": """sphinx:
  config:
    addresses:
      site: ""
      errors: ""
      repository: ""
      notebooks: ""
""",
    "hdpm_lib/__init__.py": '"""Us."""\n\n__version__ = "0.1.0"\n',
    "pyproject.toml": '[project]\nauthors = [{name = "The authors"}]\nlicense = "MIT"\n',
}


def git(folder: Path, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def change(root: Path, name: str, old: str, new: str) -> None:
    file = root / name
    text, times = re.subn(old, new, file.read_text(encoding="utf8"), count=1)
    assert times == 1, (name, old)
    file.write_text(text, encoding="utf8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Files that agree, in a commit."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf8")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "All")
    return root


def declare(root: Path) -> None:
    """Write what a release needs."""
    said = f"Version 0.1.0 was released on {DAY}."
    change(root, "CHANGELOG.md", f"{release.NOT_YET}; dates are.*", said)
    change(root, "CITATION.cff", r"(?m)^license:", f"date-released: {DAY}\nlicense:")


def test_the_files_agree() -> None:
    assert release.disagreements(ROOT) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("CITATION.cff", "version: .*", "version: 9.9", "version must be 0.1.0, got 9.9"),
        (
            "CITATION.cff",
            "license:",
            f"date-released: {DAY}\nlicense:",
            "date-released must be left out",
        ),
        ("CITATION.cff", "name: The authors", "name: Authors", "pyproject.toml: authors must be"),
        ("CHANGELOG.md", release.NOT_YET, "We work on it", "CHANGELOG.md must either say"),
        ("CHANGELOG.md", "\n", f"\nVersion 9.9 was released on {DAY}.\n", "must either say"),
        ("README.md", release.NO_ADDRESS, "Ask", "README.md must say where to ask: This copy"),
        ("_config.yml", 'site: ""', f'site: "{SITE}"', f"CITATION.cff: url must be {SITE}"),
        ("_config.yml", 'repository: ""', 'repository: "https://g/b"', "repository-code must be"),
        ("_config.yml", 'errors: ""', 'errors: "mailto:a@b"', "README.md .* ask: mailto:a@b"),
    ],
)
def test_what_disagrees_is_found(
    name: str, old: str, new: str, complaint: str, checkout: Path
) -> None:
    assert release.disagreements(checkout) == []
    change(checkout, name, old, new)
    assert re.search(complaint, "\n".join(release.disagreements(checkout)))


def test_addresses_stand_once_and_are_taken_from_there(checkout: Path) -> None:
    for name, url in (("site", SITE), ("errors", f"{SITE}new"), ("repository", "https://g/b")):
        change(checkout, "_config.yml", f'{name}: ""', f'{name}: "{url}"')
    urls = f'urls = {{Homepage = "{SITE}", Source = "https://g/b", Issues = "{SITE}new"}}'
    change(checkout, "pyproject.toml", r"(?m)^license =", f"{urls}\nlicense =")
    said = f"url: {SITE}\nrepository-code: https://g/b\nlicense:"
    change(checkout, "CITATION.cff", r"(?m)^license:", said)
    change(checkout, "README.md", release.NO_ADDRESS, f"Ask at {SITE}new")
    assert release.disagreements(checkout) == []


def test_nothing_is_released_until_somebody_says_so(checkout: Path) -> None:
    (told,) = release.obstacles(checkout)
    assert "does not say that version 0.1.0 is released: write" in told
    declare(checkout)
    (told,) = release.obstacles(checkout)
    assert told.startswith("the tree is not clean") and "CHANGELOG.md" in told
    git(checkout, "commit", "-qam", "Release")
    assert release.obstacles(checkout) == []
    change(checkout, "hdpm_lib/__init__.py", "0.1.0", "9.9")
    git(checkout, "commit", "-qam", "The next")
    assert len(release.obstacles(checkout)) == 3  # version and day of CITATION.cff, and no release


def test_a_release_is_packed(tmp_path: Path) -> None:
    """With a site that stands in for the built one, into a folder of which git knows nothing."""
    site = tmp_path / "html"
    site.mkdir()
    for name in ("index.html", *(volume.file for volume in release.pdf.volumes([], ""))):
        (site / name).touch()
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "older.zip").touch()
    version = release.version(ROOT)
    assert [file.name for file in release.pack(ROOT, site, folder)] == [
        release.package.wheel_name(ROOT),
        f"hdpm_lib-{version}.tar.gz",
        f"markets-for-private-data-{version}-library.pdf",
        f"markets-for-private-data-{version}.pdf",
        f"markets-for-private-data-{version}.zip",
    ]
    assert "/dist/" in (ROOT / ".gitignore").read_text(encoding="utf8").splitlines()
