"""Long work in time slices, so that no work blocks the event loop for long.

A time slice, or slice, is one bounded piece of work on the event loop; other work runs after it. Long work is written
as steps, which are generators: a slice runs step after step until its time is used up.
"""
