"""One model of documents (`document.py`), a writer for each format, and the charts in them."""
