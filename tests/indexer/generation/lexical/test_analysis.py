"""Text to terms, and terms to spans that are marked: the fast way for ASCII finds what looking at every word finds."""

import re
from pydoc_data.topics import topics

import pytest

from indexer.generation.lexical.analysis import STEMMERS, TERMS, has_symbol, is_stop_word, spans, terms_in, words
from indexer.generation.lexical.lexical_query import read_query


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Indexes INDEXING indexed", "index index index"),
        ("Größe naïve CAFÉ Cafe\u0301 ﬁle İstanbul", "gross naiv cafe cafe file istanbul"),
        ("set max_connections; __init__", "set max_connections max connect init"),
        ("getUserById", "getuserbyid get user by id"),
        ("HTTPServer2 toJSON", "httpserver2 http server 2 tojson to json"),
        ("set_maxPoolSize", "set_maxpoolsize set maxpools max pool size"),
        ("PostgreSQL DNAs iPhone E0308 MAX", "postgresql dnas iphon e0308 max"),
        ("C++ 3.14 don't", "c++ 3.14 3 14 don t"),
        ("ключ Ёлка", "ключ елка"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
        ("שָׁלוֹם مُحَمَّد", "שלום محمد"),
        ("Python入門", "python 入 入门 门"),
        ("한국어 문서", "한 한국 국 국어 어 문 문서 서"),
        ("ｶﾞｷﾞ", "ガ ガギ ギ"),
        ("ที่นี่", "ที่ ที่นี่ นี่"),
        ("½ ﬀ", "1 2 ff"),
        ("x" * 1000, "x" * 64),
        ("5,000 5.000 5 000 1.299,50", "5000 5 000 5000 5 000 5000 5 000 1299.50 1 299 50"),
        ("2.4GHz 10MB 10 MB", "2.4 2 4 ghz 10mb 10 mb 10 mb"),
        ("3.11.2 2026-03-01 0.125 030", "3 11 2 2026 03 01 0.125 0 125 030"),
        ("java -version -v", "java -version version -v v"),
        ("... ___ —", ""),
    ],
)
def test_terms(text, terms):
    assert terms_in(text) == terms.split()


@pytest.mark.parametrize(
    ("query", "words", "phrases"),
    [
        ("How do I create an index?", ["creat", "index"], []),
        ("what is it", ["what", "is", "it"], []),
        ("vacuum VACUUM vacuums", ["vacuum"], []),
        ('vacuum "dead tuples"', ["vacuum"], [("dead", "tupl")]),
        ('and "to be" or', [], [("to", "be")]),
        ("„dead tuples“ «vacuum»", [], [("dead", "tupl"), ("vacuum",)]),
        ('an "open quote', ["open", "quot"], []),
        ('"" "?!" x', ["x"], []),
        ("東京都", ["东京", "京都"], []),
        ("水", ["水"], []),
        ('"東京"', [], [("东", "东京", "京")]),
        ("a:b AND (c* OR [d TO e]) ^2 ~ \\", ["b", "c*", "d", "e", "2"], []),
        ("", [], []),
    ],
)
def test_reading_a_query(query, words, phrases):
    found = read_query(query)
    assert [*found.words] == [(word,) for word in words]
    assert [clause.readings for clause in found.required] == [(phrase,) for phrase in phrases]


def test_a_long_query_has_a_bounded_number_of_phrases():
    found = read_query('"a b" ' + " ".join(f'"x{i} {"w " * 99}"' for i in range(50)))
    assert len(found.required) == 8
    assert max(len(reading) for clause in found.required for reading in clause.readings) == 32


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("How do I create a partial index?", "A partial Index; indexes, reindex.", ["partial", "Index", "indexes"]),
        ("what is it", "What it is", ["What", "it", "is"]),
        ("größe", "Die GRÖSSE", ["GRÖSSE"]),
        ("max connections", "set max_connections = 5", ["max_connections"]),
        ("user by id", "Users: getUserById(by)", ["Users", "getUserById"]),
        ("getUserById", "by getUserById", ["getUserById"]),
        ('"dead tuples" vacuum', "The dead are tuples; Vacuum", ["dead", "tuples", "Vacuum"]),
        ('"to be" or not', "to be or not", ["to", "be"]),
        ("世界", "世よ 世 界 世界世", ["世界"]),
        ("東京都", "東京の都 東京都へ", ["東京", "東京都"]),
        ("水", "水 火水", ["水", "水"]),
        ("ที่นี่", "อยู่ที่นี่ ที", ["ที่นี่"]),
        ("python 世界", "Python世界入門", ["Python世界"]),
        ("ガギ", "ｶﾞｷﾞ", ["ｶﾞｷﾞ"]),
        ("a.b*c(", "b c", ["b", "c"]),
        ("sales 12000", "12000 or 12,000 sales, 12.000,5; 000 12'000.", ["12000", "12,000", "sales", "12'000"]),
        ("sales 12000", "Sales of 12000 in (12000).", ["Sales", "12000", "12000"]),
        ("", "text", []),
    ],
)
def test_spans(query, text, marked):
    assert [text[start:end] for start, end in spans(read_query(query).marked, text)] == marked


@pytest.mark.parametrize(("query", "marked"), [("index", [(9, 16), (23, 28)]), ("max", [(30, 45)])])
def test_signs_that_are_not_ascii_stand_between_words_as_spaces_do(query, marked):
    text = "“partial indexes” — an index… max_connections’s"
    terms = read_query(query).marked
    assert spans(terms, text) == spans(terms, f"{text} ж") == marked


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("de", "Häuser der Installationen", "haus der installation"),
        ("fr", "les réseaux configurées", "le reseau configur"),
        ("es", "configuración configuraciones", "configur configur"),
        ("ru", "документов Ёлка", "документ елк"),
        ("de", "set max_connections", "set max_connections max connection"),
        ("tr", "IŞIK ışık isik İSTANBUL kitapları KITAPLARI", "isik isik isik istanbul kitap kitap"),
        ("el", "ΑΘΗΝΑΣ Αθήνα ΠΡΟΫΠΟΘΕΣΗ προϋπόθεση", "αθην αθην προυποθεσ προυποθεσ"),
        ("hi", "किताबों किताबें किताब सड़कें सडक", "किताब किताब किताब सडक सडक"),
        ("ja", "Indexes 東京", "index 东 东京 京"),  # without rules of its own: as English
        (None, "Indexes indexing", "index index"),
    ],
)
def test_words_are_stemmed_by_the_rules_of_their_document(language, text, terms):
    assert terms_in(text, language) == terms.split()


FORMS = {  # two of a word, which English rules leave apart
    "ar": "كتابي كتاب", "da": "husene husets", "de": "häusern häuser", "el": "γάτες γάτας", "es": "gatos gata",
    "fi": "taloissa talojen", "fr": "réseaux réseau", "hi": "लड़कों लड़का", "hu": "házak házat", "it": "gatti gatto",
    "nb": "husene husets", "nl": "katten kat", "nn": "husene husets", "no": "husene husets", "pt": "gatos gatas",
    "ro": "fetele fete", "ru": "кошками кошках", "sv": "husen husets", "ta": "மரங்களை மரங்கள்",
    "tr": "evler evleri",
}  # fmt: skip


def test_every_language_has_its_rules():
    for language in STEMMERS.keys() - {"en"}:
        one, other = FORMS[language].split()
        assert terms_in(one, language) == terms_in(other, language)
        assert terms_in(one, "en") != terms_in(other, "en")
        assert not is_stop_word("pilotlight", language)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Installationen der Häuser", [("installation", "installationen"), ("haus", "hauser")]),
        ("how do I use networks", [("use",), ("network",)]),
        ("die", [("die",)]),
        ('"die Installationen"', []),
    ],
)
def test_a_query_is_read_by_the_rules_of_every_language_of_the_index(query, found):
    read = read_query(query, {"de": 3, "en": 2})
    assert sorted(map(sorted, read.words)) == sorted(map(sorted, found))
    if not found:
        assert [clause.readings for clause in read.required] == [(("die", "installation"), ("die", "installationen"))]


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("می\u200cخواهم", "میخواهم"),
        ("क्\u200dष", "क्ष"),
        ("ស\u200cក", "សក"),
        ("👨\u200d👧", "👨\u200d👧\ufe0f"),
        ("❤\ufe0f", "❤"),
        ("Ku\u200cche", "Kuche"),
    ],
)
@pytest.mark.parametrize("language", ["en", "de", "hi", "ar"])
def test_joiners_do_not_matter(written: str, typed: str, language: str) -> None:
    assert terms_in(written, language) == terms_in(typed, language)


TEXTS = [text for name, text in sorted(topics.items()) if text.isascii()][:30]
IRREGULAR = (
    "dying lying tying skies skis idly gently ugly early only singly using hoping flies happily relational ability "
    "reliability max_connections Max_Connections _under_ x1 try tries trying class's"
)


def word_by_word(query: str, text: str) -> list[tuple[int, int]]:
    marked = read_query(query).marked
    found = []
    for match in words(text).finditer(text):
        if not marked.isdisjoint(TERMS["en"][match[0]]):
            parts = [match] if not has_symbol(match[0]) else re.finditer(r"\w+", match[0], re.ASCII)
            at = match.start() if has_symbol(match[0]) else 0
            found += [(at + part.start(), at + part.end()) for part in parts if marked & {*TERMS["en"][part[0]]}]
    return found


@pytest.mark.parametrize(
    "query",
    [
        "how do I catch several exceptions in a single except clause of a try",
        "is it a",
        "names of attributes, classes' methods and __init__",
        '"context manager" yielding generators',
        "use",
    ],
)
def test_the_words_a_reader_would_find(query):
    for text in [*TEXTS, "someTry: exceptTypes, (HTTPClauses), a_useOf_Names PostgreSQL"]:
        assert spans(read_query(query).marked, text) == word_by_word(query, text)


@pytest.mark.parametrize("word", IRREGULAR.split())
def test_every_form_of_a_word_is_found(word):
    text = f"{IRREGULAR} a_{word} {word}, ({word.upper()})"
    found = spans(read_query(word).marked, text)
    assert found == word_by_word(word, text)
    assert len(found) >= 3
