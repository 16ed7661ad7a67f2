import pytest

from indexer.errors import ParseError
from indexer.read.links import forms

PAGE = """<base href=/in/><input name=outside>
<form action=login method=POST><input type=hidden name=csrf value="&lt;x>"><input name=user value=me>
<input type=PASSWORD name=pass><input type=checkbox name=stay><input type=checkbox name=news checked>
<input type=radio name=how value=a><input type=radio name=how value=b checked>
<input type=file name=f><input value=unnamed>
<button type=button name=show>x</button><input type=submit name=go value=in><button name=forgot>y</button></form>
<form><input type=search name=q></form>"""


def test_what_a_browser_would_send() -> None:
    assert forms.find(PAGE.encode(), None) == {
        "base": "/in/",
        "forms": [
            {
                "action": "login",
                "method": "post",
                "fields": [
                    ["csrf", "<x>", "hidden"],
                    ["user", "me", "text"],
                    ["pass", "", "password"],
                    ["news", "on", "checkbox"],
                    ["how", "b", "radio"],
                    ["go", "in", "submit"],
                ],
            },
            {"action": "", "method": "get", "fields": [["q", "", "search"]]},
        ],
    }


def test_forms_and_fields_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = forms.find(b"<form>" + b"<input name=a>" * 1_000 + b"</form>" + b"<form></form>" * 100, None)["forms"]
    assert (len(many), len(many[0]["fields"])) == (50, 500)
    monkeypatch.setattr(forms, "MOST_ELEMENTS", 10)
    with pytest.raises(ParseError, match="more than 10 elements"):
        forms.find(b"<b></b>" * 11, None)
