"""Documents for people: their model (`document.py`), a writer for each format, and charts."""
