"""The web page: plain ES modules and CSS in `static/`, which speak the public API and nothing else, and the files as a
node serves them (`files.py`).

No build step, nothing from elsewhere, no request to anything but the members of the cluster. Imports nothing of ours;
`api/http/page.py` answers with what is here.
"""
