"""The word that tells pages apart counts, whatever it is in another language, and so does the sign of a name."""

import re
from collections.abc import Mapping, Sequence

import pytest

from indexer.generation.lexical.analysis import spans
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import read_query
from indexer.generation.lexical.lexical_writer import LexicalWriter


@pytest.fixture
def index(tmp_path):
    """Return a reader of texts, given by language, and their titles in order."""

    def write(texts: Mapping[str, str | Sequence[str]]) -> tuple[LexicalReader, list[str]]:
        writer = LexicalWriter(tmp_path / "lexical")
        listed = {
            language: re.split(r"\s+\| ", each) if isinstance(each, str) else each for language, each in texts.items()
        }
        pages = [(language, text) for language, each in listed.items() for text in each]
        for row, (language, text) in enumerate(pages):
            terms = [f"language:{language}"]
            writer.add(row, title="", section="", text=text, language=language, terms=terms)
        writer.finish()
        writer.close()
        return LexicalReader(tmp_path / "lexical", writer.languages), [text for _, text in pages]

    return write


EN = "A page of the site lists its files. | The river is in the park. | It was the best of all the houses."
DE = "Der Hafen war im Winter zu. Man kann die Boote sehen. | Die Schiffe sind bald wieder im Hafen und bereit."
FR = "Le port est en hiver, et on voit les bateaux du quai. | Les gens pour qui il est ouvert sont par là."
DA = "Man kan se over alle huse, men ikke under broen. | De har en bil, men hun har ikke nogen."
VITAMINS = """Vitamin B is in a fish, a nut, a pea and in a vitamin of a kind.
| Vitamin A is in carrots and in milk, or so we are told by all.
| It is a desk with support, and it has a lamp on it if it is dark.
| The desk of IT support is in the hall, next to a lamp, and is open.
| Who is it? The band who made the song. | We heard The Who in a hall, and it was loud."""
COMMON_ELSEWHERE = [  # texts by language; and of each query, how the text that it should find first begins
    ({"en": f"The man page of a program lists options. | The web page of a program lists options. | {EN}"},
     {"man page": "The man"}),
    ({"en": "Men over 50 need iron. | Women at 50 need iron. | The die casting plant. | The sand casting plant.",
      "da": DA, "de": DE},
     {"men over 50": "Men over", "die casting": "The die", "sand casting": "The sand"}),
    ({"de": f"Die IT Abteilung ist im Haus. | Die HR Abteilung ist im Haus. | {DE} | {DE}",
      "en": "The best of it is in the house. | Of IT support we have none."},
     {"IT Abteilung": "Die IT", "HR Abteilung": "Die HR", "die HR Abteilung im Haus": "Die HR"}),
    ({"fr": f"La vitamine C est dans le citron. | La vitamine D est dans le lait. | L'accord d'hier est à lui. | {FR}"},
     {"vitamine C": "La vitamine C", "vitamine d": "La vitamine D", "l'accord d'hier": "L'accord"}),
    ({"en": f"The flow pot is here. | The flower pot is here. | The corn shop. | The corner shop. | {EN}", "de": DE},
     {"flower": "The flower", "flow": "The flow", "corner": "The corner", "corn": "The corn"}),
    ({"en": VITAMINS}, {"vitamin A": "Vitamin A", "it support": "The desk", "the who": "We heard"}),
    # written after the rule
    ({"en": "Des Moines is a city. | The Moines is a city. | Pour over coffee. | Ice over coffee.", "fr": FR, "de": DE},
     {"des moines": "Des", "pour over coffee": "Pour"}),
    ({"de": f"{DE} | {DE} | Die Seite zu WHO Berichten. | Die Waren im Lager. | Die Wahlen im Land.",
      "en": "The war diary. | The peace diary. | The box is open. | The boxer is open. | A numb hand."},
     {"war diary": "The war", "WHO Berichte": "Die Seite zu WHO", "boxer": "The boxer", "number": "",
      "Wahl": "Die Wahlen"}),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "pairs"), COMMON_ELSEWHERE)
def test_a_word_that_is_common_elsewhere_counts(index, texts, pairs):
    reader, pages = index(texts)
    for query, begin in pairs.items():
        found = reader.search(reader.read(query), 3)[1].tolist()
        assert [pages[row].startswith(begin) for row in found[:1]] == [True] * bool(begin), query


@pytest.mark.parametrize(
    ("query", "telling"),
    [
        ("how do I use the index", ["use", "index"]),
        ("wie kann ich den Index nutzen", ["index", "nutzen"]),
        ("comment est-ce que les bateaux sont à quai", ["comment", "est", "bateaux", "quai"]),
    ],
)
def test_the_stop_words_of_a_query_in_any_language_of_the_index_are_left_out(index, query, telling):
    reader, _ = index({"en": EN, "de": DE, "fr": FR})
    asked = reader.read(query).query_words
    assert len(asked) == len(telling)
    assert all(word[:5] in {term[:5] for term in terms} for word, terms in zip(telling, asked, strict=True))


@pytest.mark.parametrize(
    ("passages", "query", "telling"),
    [
        ({"vi": 9}, "dân số", "dan so"),  # whose list of stop words is not known
        ({"vi": 5, "en": 5}, "do an toàn", "do an toan"),
        ({"en": 9}, "số on the list", "so list"),
        ({"pl": 9}, "do domu", "do domu"),
        ({"tr": 9, "en": 1}, "at can", "at can"),
        ({"vi": 7, "en": 3}, "how do I use the index", "use index"),
        # written after the rule
        ({"ro": 9, "en": 1}, "an nou", "an nou"),
        ({"id": 9, "en": 1}, "has air", "has air"),
        ({"de": 9, "vi": 1}, "an die", "an die"),
        ({"cs": 5, "en": 5}, "do města", "do mesta"),
        ({"en": 5, "pl": 5}, "how to do on a map", "map"),
        ({"th": 9, "en": 1}, "to ไทย", "to ไท ทย"),
    ],
)
def test_a_word_of_a_language_without_a_list_is_no_stop_word_of_another(passages, query, telling):
    assert [terms[0] for terms in read_query(query, passages).query_words] == telling.split()


def test_a_word_is_marked_by_the_rules_of_its_document(index):
    reader, _ = index({"en": EN, "de": DE})
    read = reader.read("flower")
    text = "flow flower"
    assert [spans(read.marked_in(each), text, each) for each in ("en", "de")] == [[(5, 11)], [(0, 4), (5, 11)]]


LANGUAGES = [
    "C was made in 1972.",
    "C++ was made in 1985.",
    "C# was made in 2000.",
    "F# was made in 2005.",
    "Java was made in 1995.",
]
SIGNS = [
    *LANGUAGES,
    "The .NET runtime is here.", "The net runtime is here.", "A* search is fast.", "A search is fast.",
    "Use --no-cache to skip the cache.", "Use --cache to fill the cache.", "Set $PATH here.", "A path in a shell.",
    "Write @property before it.", "A property comes before it.", "Done 👍", "Failed 👎", "By 👩‍💻 now", "By 👩‍🚀 now",
    "Compare by === here.", "Compare by == here.", "The 🇩🇪 flag", "The 🇫🇷 flag",
    "grep -v inverts", "grep -i ignores", "The g++ compiler.", "The g77 compiler.", "R&D costs.", "The r and the d.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "begin", "marked"),
    [
        ("C", "C was", "C"), ("C++", "C++ was", "C++"), ("c++ made", "C++ was", "C++ made"), ("C#", "C# was", "C#"),
        ("F#", "F# was", "F#"), (".NET", "The .NET", ".NET"), (".NET runtime", "The .NET", ".NET runtime"),
        ("A* search", "A* search", "A* search"), ("--no-cache", "Use --no-cache", "--no-cache cache"),
        ("--cache", "Use --cache", "--cache cache"), ("$PATH", "Set $PATH", "$PATH"), ("👎", "Failed", "👎"),
        ("👩‍🚀", "By 👩‍🚀", "👩‍🚀"),
        ("@property", "Write @property", "@property"), ("grep -i", "grep -i", "grep -i"),
        ("===", "Compare by ===", "==="), ("🇫🇷", "The 🇫🇷", "🇫🇷"), ("g++", "The g++", "g++"), ("R&D", "R&D", "R&D"),
    ],
)  # fmt: skip
def test_a_sign_tells_names_apart(index, query, begin, marked):
    reader, pages = index({"en": SIGNS})
    read = reader.read(query)
    found = reader.search(read, 3)[1].tolist()
    page = pages[found[0]]
    assert page.startswith(begin), page
    assert [page[start:end] for start, end in spans(read.marked, page)] == marked.split()
    assert not read.also
    assert read.did_you_mean is None


def test_a_letter_is_not_its_name_with_a_sign(index):
    reader, pages = index({"en": LANGUAGES})
    assert [pages[row][:2] for row in reader.search(reader.read("C++"), 5)[1]] == ["C+"]
    assert [pages[row][:2] for row in reader.search(reader.read("C"), 5)[1]] == ["C "]
    assert spans(reader.read("C").marked, "C++ or C, C#") == [(7, 8)]
