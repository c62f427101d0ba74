"""Punctual's version, as it is sent in User-Agent and shown on pages."""

VERSION = "0.1.0"
