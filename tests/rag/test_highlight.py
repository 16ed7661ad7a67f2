import pytest

from rag.highlight import highlights


def marked(query, text):
    return [text[start:end] for start, end in highlights(query, text)]


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [
        ("How do I create a partial index?", "A partial Index; indexes, reindex.", ["partial", "Index"]),
        ("indexs rows", "index row Rows", ["index", "row", "Rows"]),
        ("what is it", "What it is", ["What", "it", "is"]),
        ("größe ß", "Die GRÖSSE", ["GRÖSSE"]),
        ("a.b*c(", "b c", ["b", "c"]),
        ("", "text", []),
        ("ключ 你好", "ключ к 你好", ["ключ", "你好"]),
    ],
)
def test_words(query, text, words):
    assert marked(query, text) == words
