"""``python -m monitor`` is the same as ``slicewatch``."""

from monitor.cli import main

if __name__ == "__main__":
    main()
