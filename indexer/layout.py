"""Names inside an index folder.

CURRENT              id of the live generation and a line end
generations/<id>/    published generations, never changed
building/<id>/       a generation on its way in, or an old one on its way out
lock                 held by the one build that may run
"""

CURRENT = "CURRENT"
GENERATIONS = "generations"
BUILDING = "building"
LOCK = "lock"
