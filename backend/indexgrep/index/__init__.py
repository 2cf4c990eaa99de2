"""The two files of an index: format, builder, reader, candidate plans, and the store they live in."""
