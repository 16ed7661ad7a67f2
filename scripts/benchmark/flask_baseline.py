"""The baseline of `load`: a search server as one writes it by hand, with Flask, SentenceTransformer and FAISS.

Served by gunicorn: `gunicorn -k gthread --threads 8 --chdir scripts/benchmark flask_baseline:app`, with
BASELINE_MODEL a sentence-transformers folder and BASELINE_INDEX a folder with vectors.faiss and texts.json.
"""

import json
import os
from pathlib import Path

import faiss
from flask import Flask, Response, jsonify, request
from sentence_transformers import SentenceTransformer

FOLDER = Path(os.environ["BASELINE_INDEX"])
model = SentenceTransformer(os.environ["BASELINE_MODEL"], device="cpu")
index = faiss.read_index(str(FOLDER / "vectors.faiss"))
texts = json.loads((FOLDER / "texts.json").read_text(encoding="utf-8"))
app = Flask(__name__)


@app.route("/api/v1/search", methods=["GET", "POST"])
def search() -> Response:
    """Answer `?q=…&k=…`, or a JSON object with `query` and `k`."""
    fields = request.get_json() if request.method == "POST" else request.args
    query = fields["query"] if request.method == "POST" else fields["q"]
    vector = model.encode([query], normalize_embeddings=True, show_progress_bar=False)
    scores, rows = index.search(vector, int(fields.get("k", 10)))
    hits = [{"text": texts[row], "score": float(score)} for row, score in zip(rows[0], scores[0], strict=True)]
    return jsonify(query=query, hits=hits)


@app.route("/readyz")
def readyz() -> Response:
    """Answer once the model is loaded, which importing this module waits for."""
    return jsonify(ready=True)
