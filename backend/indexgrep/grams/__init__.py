"""Sparse n-grams: byte-pair weights, extraction, the frequent set, covering sets."""
