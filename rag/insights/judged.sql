-- By question and document: searches in which the document was opened, and sum of judgements; most frequent question first.
WITH shown AS (
    SELECT s.id, s.query, question_key(s.query) AS key, h.document, max(h.opened) AS opened,
        iif(max(h.verdict) > 0, 1, min(h.verdict)) AS verdict -- a document with one good passage is good
    FROM searches s JOIN hits h ON h.search = s.id
    WHERE s.seen AND length(s.query) < ? AND s.collection = ?
        AND (s.via IN ('page', 'box') OR s.id IN (SELECT search FROM hits WHERE opened OR verdict))
    GROUP BY s.id, h.document
), asked AS (
    SELECT key, query, max(id), count(DISTINCT id) AS times FROM shown GROUP BY key
)
SELECT asked.query, times, document, sum(opened), sum(verdict)
FROM shown JOIN asked USING (key) GROUP BY key, document ORDER BY times DESC, asked.query
