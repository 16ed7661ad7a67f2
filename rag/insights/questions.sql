-- Count searches by question, and the searches of each question that had no good answer, by reason.
WITH searched AS (
    SELECT * FROM searches WHERE seen AND id >= ? AND (? IS NULL OR collection = ?) ORDER BY id DESC LIMIT ?
), feedback AS (
    SELECT search, max(opened) AS opened, max(verdict) AS best, min(verdict) AS worst
    FROM hits INDEXED BY told WHERE opened OR verdict GROUP BY search
), failed AS (
    SELECT *, coalesce(opened OR best > 0, 0) AS answered, hits = 0 AS empty, hits AND NOT close AS far,
        coalesce(worst < 0, 0) AS bad, hits AND coalesce(worst, 0) >= 0 AND via IN ('page', 'box') AS unopened
    FROM searched LEFT JOIN feedback ON search = id
)
SELECT query, max(id), count(*), sum(NOT answered AND (empty OR far OR bad OR unopened)),
    sum(NOT answered AND empty), sum(NOT answered AND far), sum(NOT answered AND bad), sum(NOT answered AND unopened),
    coalesce(sum(opened), 0), coalesce(sum(best > 0), 0), round(avg(cosine), 3)
FROM failed GROUP BY question_key(query)
