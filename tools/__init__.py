"""Tools for the development of this project; nothing here is part of the package."""
