"""Fixtures of the index's tests."""

from __future__ import annotations

from support.indexing import build_here

__all__ = ["build_here"]
