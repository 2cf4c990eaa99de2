"""The compiled loops of builds and merges: counting the sample, collecting postings, encoding runs, merging
runs, joining the lists of indexes.

Only worker processes import this (see ``grams.kernels``).

A *run* is what one stretch of documents gives: for each key, in ascending order, how many documents hold it,
the first and the last of them, and the gaps between them. Gaps are ``next - previous - 1``, so that each is
at least 0, as little-endian base-128 varints. Runs of different documents are joined into final lists by
copying, with only the gap from one run's last document to the next run's first written anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..grams.kernels import compiled, scan_compiled
from ..grams.scan import OVERLAP

#: Text scanned at once; larger documents are scanned in pieces that overlap.
PIECE = 32 * 1024

U64 = np.uint64
_HALF = U64(32)
_LOW = U64(0xFFFFFFFF)


def _count_sample(
    data: Any,
    starts: Any,
    stops: Any,
    first_stamp: int,
    lower: Any,
    weights: Any,
    powers: Any,
    frequent: Any,
    shift: Any,
    keys: Any,
    spans: Any,
    counts: Any,
    stamps: Any,
    count_shift: Any,
) -> None:
    """Add 1 to ``counts[key >> count_shift]`` for each document ``data[starts[i]:stops[i]]`` that has the
    key.

    ``stamps`` (uint32, as ``counts``) keeps the last document counted; documents are stamped upwards from
    ``first_stamp``, at least 1.
    """
    for document in range(starts.shape[0]):
        stamp = np.uint32(first_stamp + document)
        start = starts[document]
        stop = stops[document]
        while start < stop:
            end = min(start + PIECE, stop)
            found = scan_compiled(data, start, end, lower, weights, powers, frequent, shift, keys, spans)
            for index in range(found):
                place = np.int64(U64(keys[index]) >> count_shift)
                if stamps[place] != stamp:
                    stamps[place] = stamp
                    counts[place] += 1
            if end == stop:
                break
            start = end - OVERLAP


def _collect(
    data: Any,
    starts: Any,
    stops: Any,
    documents: Any,
    lower: Any,
    weights: Any,
    powers: Any,
    frequent: Any,
    shift: Any,
    keys: Any,
    spans: Any,
    table: Any,
    table_shift: Any,
    slots: Any,
    owners: Any,
    state: Any,
) -> bool:
    """Add the postings of a batch of documents to a run; False where the run is full and must be flushed
    first.

    The run's keys stand in ``table`` (uint64, a power of two of places, open addressing): the key above, the
    number of the last document that has it plus 1 below, 0 for an empty place. Postings are appended as
    (place in the table, document) to ``slots`` and ``owners`` (uint32).

    ``state`` (int64[4]) is where the work stands: keys in the table, postings, next document of the batch,
    next byte of it or -1. After a False, flush, set the first two to 0 and call again.
    """
    used, size, document, resume = state[0], state[1], state[2], state[3]
    most_keys = table.shape[0] * 5 // 8
    mask = table.shape[0] - 1
    while document < starts.shape[0]:
        stamp = U64(documents[document]) + U64(1)
        start = resume if resume >= 0 else starts[document]
        stop = stops[document]
        while start < stop:
            end = min(start + PIECE, stop)
            room = 2 * (end - start)
            if used + room > most_keys or size + room > slots.shape[0]:
                state[0], state[1], state[2], state[3] = used, size, document, start
                return False
            found = scan_compiled(data, start, end, lower, weights, powers, frequent, shift, keys, spans)
            for index in range(found):
                key = U64(keys[index])
                slot = np.int64(key >> table_shift)
                while True:
                    entry = table[slot]
                    if entry == 0:
                        used += 1
                    elif (entry >> _HALF) != key:
                        slot = (slot + 1) & mask
                        continue
                    elif (entry & _LOW) == stamp:
                        break
                    table[slot] = (key << _HALF) | stamp
                    slots[size] = slot
                    owners[size] = stamp - U64(1)
                    size += 1
                    break
            if end == stop:
                break
            start = end - OVERLAP
        document += 1
        resume = -1
    state[0], state[1], state[2], state[3] = used, size, document, -1
    return True


def _count_slots(slots: Any, size: int, offsets: Any) -> None:
    """Count the postings of each place of the table in ``offsets`` (int64, zero before)."""
    for index in range(size):
        offsets[slots[index]] += 1


def _encode(
    slots: Any,
    owners: Any,
    size: int,
    order: Any,
    offsets: Any,
    sorted_owners: Any,
    counts: Any,
    firsts: Any,
    lasts: Any,
    lengths: Any,
    out: Any,
) -> int:
    """Encode a run; returns the bytes written to ``out``.

    ``order`` holds the used places of the table in ascending order of their keys, and ``offsets`` how many
    postings each has (it is used up). The results, in that order: ``counts``, ``firsts``, ``lasts`` (document
    numbers) and ``lengths`` (bytes of gaps), all uint32.
    """
    total = 0
    for rank in range(order.shape[0]):
        slot = order[rank]
        count = offsets[slot]
        counts[rank] = count
        offsets[slot] = total
        total += count
    for index in range(size):
        slot = slots[index]
        place = offsets[slot]
        sorted_owners[place] = owners[index]
        offsets[slot] = place + 1
    at = 0
    written = 0
    for rank in range(order.shape[0]):
        previous = np.int64(sorted_owners[at])
        firsts[rank] = previous
        before = written
        for index in range(at + 1, at + counts[rank]):
            owner = np.int64(sorted_owners[index])
            gap = owner - previous - 1
            previous = owner
            while gap >= 128:
                out[written] = (gap & 127) | 128
                written += 1
                gap >>= 7
            out[written] = gap
            written += 1
        at += counts[rank]
        lasts[rank] = previous
        lengths[rank] = written - before
    return written


def _merge(
    run_starts: Any,
    keys: Any,
    counts: Any,
    firsts: Any,
    lasts: Any,
    lengths: Any,
    data: Any,
    data_starts: Any,
    bitmap_bytes: int,
    out_keys: Any,
    out_counts: Any,
    out_lengths: Any,
    out: Any,
    totals: Any,
) -> None:
    """Join the runs' lists of each key.

    The runs lie one after another in ``keys``, ``counts``, ``firsts``, ``lasts``, ``lengths`` (run i from
    ``run_starts[i]`` to ``run_starts[i + 1]``) and their gaps in ``data`` from ``data_starts[i]`` on, in the
    order of their documents. A document whose scan was interrupted by a flush is the last of one run and the
    first of the next, and counts once.

    Results are in the form of the files (``index.format``): a key in one document only has length 0 and the
    document for a count; a list of ``bitmap_bytes`` bytes is a bitmap, a shorter one is gaps. ``totals``
    (int64[2]) takes the number of keys and of bytes.
    """
    runs = run_starts.shape[0] - 1
    heads = run_starts[:-1].copy()
    reads = data_starts.copy()
    members = np.empty(runs, np.int64)
    key_count = 0
    written = 0
    while True:
        smallest = np.int64(1) << 40
        found = 0
        for run in range(runs):
            head = heads[run]
            if head < run_starts[run + 1]:
                key = np.int64(keys[head])
                if key < smallest:
                    smallest = key
                    found = 0
                if key == smallest:
                    members[found] = run
                    found += 1
        if found == 0:
            break
        # How long is the list as gaps?
        previous = np.int64(-1)
        count = np.int64(0)
        length = np.int64(0)
        for member in range(found):
            head = heads[members[member]]
            count += counts[head]
            length += lengths[head]
            gap = np.int64(firsts[head]) - previous - 1
            if gap < 0:
                count -= 1
            else:
                length += 1
                while gap >= 128:
                    length += 1
                    gap >>= 7
            previous = np.int64(lasts[head])
        if count == 1:
            out_counts[key_count] = previous
            out_lengths[key_count] = 0
        elif length < bitmap_bytes:
            previous = np.int64(-1)
            for member in range(found):
                run = members[member]
                head = heads[run]
                gap = np.int64(firsts[head]) - previous - 1
                if gap >= 0:
                    while gap >= 128:
                        out[written] = (gap & 127) | 128
                        written += 1
                        gap >>= 7
                    out[written] = gap
                    written += 1
                read = reads[run]
                for index in range(lengths[head]):
                    out[written + index] = data[read + index]
                written += lengths[head]
                previous = np.int64(lasts[head])
            out_counts[key_count] = count
            out_lengths[key_count] = length
        else:
            for index in range(bitmap_bytes):
                out[written + index] = 0
            for member in range(found):
                run = members[member]
                head = heads[run]
                document = np.int64(firsts[head])
                out[written + (document >> 3)] |= np.uint8(1 << (document & 7))
                read = reads[run]
                stop = read + lengths[head]
                while read < stop:
                    gap = np.int64(0)
                    bits = 0
                    while data[read] >= 128:
                        gap |= np.int64(data[read] & 127) << bits
                        bits += 7
                        read += 1
                    gap |= np.int64(data[read]) << bits
                    read += 1
                    document += gap + 1
                    out[written + (document >> 3)] |= np.uint8(1 << (document & 7))
            written += bitmap_bytes
            out_counts[key_count] = count
            out_lengths[key_count] = bitmap_bytes
        out_keys[key_count] = smallest
        key_count += 1
        for member in range(found):
            run = members[member]
            reads[run] += lengths[heads[run]]
            heads[run] += 1
    totals[0] = key_count
    totals[1] = written


def _decode(
    data: Any, start: int, stop: int, count: int, bitmap_bytes: int, documents: int, numbers: Any, out: Any
) -> int:
    """Write the new numbers of the documents in a list to ``out``; how many they are, or -1: malformed.

    The list is ``data[start:stop]`` in a form of ``index.format``, its ``count`` that of the table, in an
    index of ``documents`` whose bitmaps have ``bitmap_bytes``. ``numbers`` has the new number of each
    document, or -1 for one that is left out.
    """
    kept = 0
    if start == stop:
        if count >= documents:
            return -1
        if numbers[count] >= 0:
            out[0] = numbers[count]
            kept = 1
        return kept
    seen = 0
    if stop - start == bitmap_bytes:
        for index in range(bitmap_bytes):
            byte = np.int64(data[start + index])
            document = np.int64(8 * index)
            while byte:
                if byte & 1:
                    if document >= documents:
                        return -1
                    seen += 1
                    number = numbers[document]
                    if number >= 0:
                        out[kept] = number
                        kept += 1
                byte >>= 1
                document += 1
    else:
        document = np.int64(-1)
        read = start
        while read < stop:
            byte = np.int64(data[read])
            read += 1
            gap = byte & 127
            bits = 7
            while byte >= 128:
                if read == stop or bits > 28:
                    return -1
                byte = np.int64(data[read])
                read += 1
                gap |= (byte & 127) << bits
                bits += 7
            document += gap + 1
            if document >= documents:
                return -1
            seen += 1
            number = numbers[document]
            if number >= 0:
                out[kept] = number
                kept += 1
    return kept if seen == count else -1


decode = compiled(_decode)


def _join(
    source_starts: Any,
    keys: Any,
    lengths: Any,
    counts: Any,
    data: Any,
    data_starts: Any,
    source_bitmaps: Any,
    number_starts: Any,
    numbers: Any,
    bitmap_bytes: int,
    scratch: Any,
    out_keys: Any,
    out_counts: Any,
    out_lengths: Any,
    out: Any,
    totals: Any,
) -> int:
    """Join the lists that several indexes have of each key, for the documents that are kept.

    The tables of the sources lie one after another in ``keys``, ``lengths`` and ``counts`` (source i from
    ``source_starts[i]`` to ``source_starts[i + 1]``), their lists in ``data`` from ``data_starts[i]`` on,
    the new numbers of their documents (int32, -1 for one that is left out) in ``numbers`` from
    ``number_starts[i]`` to ``number_starts[i + 1]``; a list of ``source_bitmaps[i]`` bytes is a bitmap.
    ``scratch`` (int32) is three times as long as there are new numbers.

    Results are in the form of the files, as those of ``merge``; a key that no document is left of is left
    out. Returns -1, or the number of a source that has a malformed list.
    """
    sources = source_starts.shape[0] - 1
    heads = source_starts[:-1].copy()
    reads = data_starts.copy()
    third = scratch.shape[0] // 3
    joined = scratch[:third]
    added = scratch[third : 2 * third]
    spare = scratch[2 * third :]
    key_count = 0
    written = 0
    while True:
        smallest = np.int64(1) << 40
        for source in range(sources):
            head = heads[source]
            if head < source_starts[source + 1] and np.int64(keys[head]) < smallest:
                smallest = np.int64(keys[head])
        if smallest == np.int64(1) << 40:
            break
        size = 0
        for source in range(sources):
            head = heads[source]
            if head == source_starts[source + 1] or np.int64(keys[head]) != smallest:
                continue
            heads[source] = head + 1
            start = reads[source]
            reads[source] = start + lengths[head]
            more = decode(
                data,
                start,
                reads[source],
                np.int64(counts[head]),
                source_bitmaps[source],
                number_starts[source + 1] - number_starts[source],
                numbers[number_starts[source] : number_starts[source + 1]],
                joined if size == 0 else added,
            )
            if more < 0:
                return source
            if size and more:
                left = 0
                right = 0
                while left < size and right < more:
                    if joined[left] < added[right]:
                        spare[left + right] = joined[left]
                        left += 1
                    else:
                        spare[left + right] = added[right]
                        right += 1
                while left < size:
                    spare[left + right] = joined[left]
                    left += 1
                while right < more:
                    spare[left + right] = added[right]
                    right += 1
                joined, spare = spare, joined
            size += more
        if size == 0:
            continue
        out_keys[key_count] = smallest
        if size == 1:
            out_counts[key_count] = joined[0]
            out_lengths[key_count] = 0
        else:
            stop = written
            previous = np.int64(-1)
            for index in range(size):
                gap = np.int64(joined[index]) - previous - 1
                previous = np.int64(joined[index])
                while gap >= 128:
                    out[stop] = (gap & 127) | 128
                    stop += 1
                    gap >>= 7
                out[stop] = gap
                stop += 1
                if stop - written >= bitmap_bytes:
                    break
            if stop - written >= bitmap_bytes:
                stop = written + bitmap_bytes
                for index in range(written, stop):
                    out[index] = 0
                for index in range(size):
                    document = np.int64(joined[index])
                    out[written + (document >> 3)] |= np.uint8(1 << (document & 7))
            out_counts[key_count] = size
            out_lengths[key_count] = stop - written
            written = stop
        key_count += 1
    totals[0] = key_count
    totals[1] = written
    return -1


count_sample = compiled(_count_sample)
collect = compiled(_collect)
count_slots = compiled(_count_slots)
encode = compiled(_encode)
merge = compiled(_merge)
join = compiled(_join)
