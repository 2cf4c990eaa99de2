"""Posting lists as gaps: base-128 varints to document numbers, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: A gap below 2 ** 32 takes at most so many bytes.
_LONGEST = 5


def decode_gaps(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64] | None:
    """The documents of a list of gaps (``index.format``), ascending; ``None`` where it is malformed."""
    if not len(data) or data[-1] >= 128:
        return None
    ends = np.flatnonzero(data < 128)
    if len(ends) == len(data):  # all gaps are below 128
        documents = data.astype(np.int64)
    else:
        starts = np.empty_like(ends)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        widths = ends - starts + 1
        widest = int(widths.max())
        if widest > _LONGEST:
            return None
        documents = (data[starts] & 127).astype(np.int64)
        for place in range(1, widest):
            longer = np.flatnonzero(widths > place)
            documents[longer] |= (data[starts[longer] + place].astype(np.int64) & 127) << (7 * place)
    documents += 1
    np.cumsum(documents, out=documents)
    documents -= 1
    return documents
