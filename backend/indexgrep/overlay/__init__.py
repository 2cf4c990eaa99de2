"""What stands between the tree and its indexes: layers, hot files, maintenance, unsaved buffers.

=========== ==================================================================================
module      concern
=========== ==================================================================================
view        which document serves each file, and which files are hot
bases       the indexes of a worktree on disk, and which of them to use
adopt       finding documents that have the content of hot files
policy      the thresholds of maintenance
overlay     the layers of one worktree: looking, building, maintaining
keeper      the thread that maintains them while a server runs
buffers     the unsaved buffers of a client, as it sent them
=========== ==================================================================================
"""
