"""The JSON of answers, written by orjson in a tenth of the time that the standard library takes."""

from typing import Any

import orjson
from flask import Response
from flask.json.provider import DefaultJSONProvider
from werkzeug.sansio.response import Response as AnyResponse


class JsonProvider(DefaultJSONProvider):
    """Flask's own, but that answers are UTF-8 and their keys keep their order."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> AnyResponse:
        """Return an answer as `flask.jsonify` does. Raises TypeError for what JSON cannot hold."""
        try:
            body = orjson.dumps(self._prepare_response_obj(args, kwargs))
        except orjson.JSONEncodeError:  # whole numbers beyond 64 bits, half a surrogate pair: rare, but JSON has them
            return super().response(*args, **kwargs)
        return Response(body, mimetype=self.mimetype)
