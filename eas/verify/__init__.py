"""`python -m eas verify`: whether everything that eas promises holds on this machine, as a table, a JSON file and a page."""
