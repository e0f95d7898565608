"""``python -m hdpm_owner``: the same as ``hdpm-owner``."""

from hdpm_owner.commands import main

if __name__ == "__main__":
    main()
