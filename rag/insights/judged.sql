-- The documents that searches showed, with what became of them.
SELECT s.id, s.query, h.document, max(h.opened), max(h.verdict), min(h.verdict)
FROM searches s JOIN hits h ON h.search = s.id
WHERE s.seen AND length(s.query) < ? AND s.collection = ?
    AND (s.via IN ('page', 'box') OR s.id IN (SELECT search FROM hits WHERE opened OR verdict))
GROUP BY s.id, h.document ORDER BY s.id, min(h.rank)
