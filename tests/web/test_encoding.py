import json
from collections import OrderedDict, namedtuple

import pytest
from flask import Flask, jsonify

from web.app import JsonProvider

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "value",
    [
        {"z": 1, "a": [0.1, -1e-9, 5e300, None, True], "é": "naïve 火災 \U0001f525 \u2028 </script>"},
        {"far": 2**70, "near": 2**53 + 1},  # beyond 64 bits
        {"half": "\ud83d"},
        {"spans": [(0, 5), Pair(6, 9)], "ordered": OrderedDict(b=1, a=2)},
        [],
        "text",
    ],
)
def test_the_same_value_as_python_writes(value: object) -> None:
    app = Flask(__name__)
    app.json = JsonProvider(app)
    with app.app_context():
        response = jsonify(value)
    assert response.mimetype == "application/json"
    assert response.get_json() == json.loads(json.dumps(value))
    if isinstance(value, dict):
        assert list(response.get_json()) == list(value)


def test_what_is_no_json_is_an_error() -> None:
    app = Flask(__name__)
    app.json = JsonProvider(app)
    with app.app_context(), pytest.raises(TypeError, match="unsupported"):
        jsonify({"a": object()})
