"""The JSON of answers, written by msgspec in a tenth of the time that the standard library takes."""

from typing import Any

import msgspec
from flask import Response
from flask.json.provider import DefaultJSONProvider
from werkzeug.sansio.response import Response as AnyResponse


class JsonProvider(DefaultJSONProvider):
    """Flask's own, but that answers are UTF-8, may be structs, and keep the order of their keys."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> AnyResponse:
        """Return an answer as `flask.jsonify` does. Raises TypeError for a value that JSON cannot hold."""
        value = self._prepare_response_obj(args, kwargs)
        try:
            body = msgspec.json.encode(value)
        except (OverflowError, UnicodeEncodeError):  # whole numbers beyond 64 bits, half a surrogate pair
            return super().response(msgspec.to_builtins(value))
        return Response(body, mimetype=self.mimetype)
