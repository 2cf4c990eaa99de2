"""The two files of an index: format, builder, reader, candidate plans, and the store they live in.

========== ===================================================================================
module     concern
========== ===================================================================================
format     the files, field by field, and their headers
writer     writing them
reader     ``Index``: opening them, the document table, posting lists
varint     posting lists as gaps
candidates from a pattern's strings to the documents that may match, and why
documents  from a file to the text that is indexed
builder    planning and running a build
merge      one index of several, without reading files
placing    a finished index takes its place
workers    the build processes, kept between jobs
worker     the process that extracts, merges and joins
messages   what goes between the two
runs       sorted runs, between the two
kernels    the compiled loops
store      where indexes live: locks, disk budget, quarantine
variants   figures for the choice of what is stored
========== ===================================================================================
"""

from .builder import build
from .candidates import Candidates
from .merge import Source, SourceCorrupt
from .reader import Index
from .store import Store, Stored, listing
from .workers import Workers

__all__ = ["Candidates", "Index", "Source", "SourceCorrupt", "Store", "Stored", "Workers", "build", "listing"]
