"""Proof of answers: quotations and facts against passages, as a whole and in pieces."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rag.answer.proof import LEFT_OUT, ProvedText, Prover
from rag.answer.sentences import Sentence, SentenceSplitter
from rag.messages import Proof
from rag.query.results import Hit
from tests.linear import check_linear
from tests.web.fakes import make_hit

TEXTS = (
    "A partial index is an index built over a subset of a table; the subset is defined by a conditional expression, "
    "called the predicate. The default is 200 tokens (3.14 MB). Set work_mem with `--max-depth 5`, or see "
    "https://docs.example/set?a=1.",
    "Ada Lovelace wrote the program in 1843 for Charles Babbage’s engine — it ran to 1,000 lines and three parts. "
    "Mary Somerville taught her mathematics in London.",
    "Vacuum reclaims the storage that dead tuples occupy, and it may be run by any user who owns the table.",
    "Ein Teilindex enthält nur Zeilen der Tabelle, die eine Bedingung erfüllen. 部分インデックスは表の一部だけを含む。",
)
TITLES = ("Partial indexes", "History", "Vacuum", "Teilindex")
FOUND, ELSEWHERE, ALTERED, NOT_THERE, UNCHECKED = "found", "elsewhere", "altered", "not there", "unchecked"


def hits() -> list[Hit]:
    languages = ("en", "en", "en", "de")
    facts: Any = zip(TEXTS, TITLES, languages, strict=True)
    return [
        make_hit(place, text=text, title=title, section=title, language=language, url=f"https://docs.example/{place}")
        for place, (text, title, language) in enumerate(facts, 1)
    ]


def proofs(text: str, question: str = "", **options: Any) -> list[Proof]:
    return list(Prover(hits(), question, **options).feed(text, is_last=True))


@pytest.mark.parametrize(
    ("sentence", "verdict", "number"),
    [
        ('It is "an index, the “subset” is" [1].', NOT_THERE, None),
        ('It is "built over a subset of a table" [1].', FOUND, 1),
        ("It is “Built   over a\u00a0subset of a table”. [1]", FOUND, 1),
        ("The docs: „Charles Babbage's engine - it ran to 1,000 lines“ [2].", FOUND, 2),
        ("'An index built over … called the predicate' [1].", FOUND, 1),
        ('"The subset is defined [...] an index built" [1].', NOT_THERE, None),
        ("> Vacuum reclaims the storage that dead tuples occupy [3]", FOUND, 3),
        ("« die eine Bedingung erfüllen » [4].", FOUND, 4),
        ("それは「表の一部だけ」です[4]。", FOUND, 4),
        ("それは「表の全部だけ」です[4]。", NOT_THERE, None),
        ('It "reclaims the storage that dead tuples occupy" [1].', ELSEWHERE, 3),
        ('It "reclaims the storage that dead tuples occupy" [1], it is [3].', ELSEWHERE, 3),
        ('"it may be run by any user who owns the database" [3].', ALTERED, 3),
        ('"it may not be run by any user who owns the table" [3].', ALTERED, 3),
        ('"an index built over a subset of a table, and dead tuples occupy the storage" [1].', NOT_THERE, None),
        ('It is "artial ind" [1].', NOT_THERE, None),
        ("**“built over a *subset* of a table”** [1].", FOUND, 1),
        ('The default is "200 tokens", and "Vacuum reclaims" [1][3].', FOUND, 1),
        ("The default is 200 tokens [1].", FOUND, 1),
        ("The default is 300 tokens [1].", NOT_THERE, None),
        ("It takes 14 MB [1].", NOT_THERE, None),
        ("It takes 0.14 times as long [1].", NOT_THERE, None),
        ("Dr. Mayer found it [1].", NOT_THERE, None),
        ("1. Install it [1].", UNCHECKED, None),
        ("It has 1000 lines in 3 parts [2].", FOUND, 2),
        ("It has four parts [2].", NOT_THERE, None),
        ("It ran to three lines [2].", FOUND, 2),
        ("Mary Somerville taught mathematics in London [2].", FOUND, 2),
        ("A partial index may be run by any user who owns the table [1][3].", UNCHECKED, None),
        ("Mary Lovelace wrote the program in 1843 [2].", FOUND, 2),
        ("Dead tuples occupy storage that is reclaimed [2].", ELSEWHERE, 3),
        ("Charles Babbage taught mathematics in London [2].", FOUND, 2),
        ("Call prune() first [3].", NOT_THERE, None),
        ("One thousand lines were written in 1843 [2].", FOUND, 2),
        ("It was written in the 18th century [2].", NOT_THERE, None),
        ("Hopper's program is older [2].", NOT_THERE, None),
        ("It is from Charlesian times [2].", FOUND, 2),
        ("In 1843 the engine was that of Charles Babbage [2].", FOUND, 2),
        ("In 1843 the engine was that of Grace Hopper [2].", NOT_THERE, None),
        ("The program is by Lovelace and was written in 1843 [1].", ELSEWHERE, 2),
        ("Set `work_mem` or `--max-depth 5` [1].", FOUND, 1),
        ("Set maintenance_work_mem [1].", NOT_THERE, None),
        ("Use `--max-width 5` [1].", NOT_THERE, None),
        ("See https://docs.example/set?a=1 [1].", FOUND, 1),
        ("See https://docs.example/set?a=2 [1].", NOT_THERE, None),
        ("```sh\nrun --max-depth 5\n```", NOT_THERE, None),
        ("```\n--max-depth 5\n```", FOUND, 1),
        ("The vacuum reclaims the storage of dead tuples [1].", ELSEWHERE, 3),
        ("Sailors invented them long ago in the northern seas [3].", NOT_THERE, None),
        ("Der Teilindex enthält Zeilen der Tabelle [4].", UNCHECKED, None),
        ("An index may cover some of the rows [1].", UNCHECKED, None),
        ("The passages do not say so.", UNCHECKED, None),
        ("1. First, it is so.", UNCHECKED, None),
    ],
)
def test_verdicts(sentence: str, verdict: str, number: int | None) -> None:
    [proof] = proofs(sentence)
    assert (proof.verdict, proof.number) == (verdict, number), proof
    assert proof.reason.endswith(".")
    assert sentence[proof.start : proof.end] == sentence


MANUAL = (
    "Plan | Data | Price\nSpark | 5 GB | 9.90\nBlaze | 50 GB | 34.90\ntea | 1 GB | 2\nnights | 7 GB | 3",
    "Heron opens port 8640. See Art. 6 of the contract. It was tested with v5.15 of Linux, and by Greta Holm.",
    "Exit code 0 means success, 2 a conflict of versions, 5 a failed download. Use --frozen to keep the lock file.",
    "max_open_files (integer)\n\nLimits the cache. The default is 400.\n\n"
    "min_free_bytes (integer)\n\nLimits the disk. The default is 200.",
)


@pytest.mark.parametrize(
    ("sentence", "verdict", "number"),
    [
        ("Spark has 5 GB for 9.90 [1].", FOUND, 1),
        ("Spark has 5 GB for 34.90 [1].", ALTERED, 1),
        ("The limit of the disk, min_free_bytes, is 400 [4].", FOUND, 4),
        ("Tested it was with v5.15 of Linux, by Heron [2].", ALTERED, 2),
        ("There are two plans: Spark and Blaze [1].", FOUND, 1),
        ("Heron opens port 8640 [1][2].", FOUND, 2),
        ("Blaze is 34.90 in price [3].", ELSEWHERE, 1),
        ("It was tested with Linux 5.15 [2].", FOUND, 2),
        ("Article 6 of the contract is of interest to Heron [2].", FOUND, 2),
        ("It was tested by Grete Kaas [2].", NOT_THERE, None),
        ("Exit code 2 means conflict of versions in Quarry [3].", NOT_THERE, None),
        ("Use --frozen for the lock file [3].", FOUND, 3),
        ("Use --locked for the lock file [3].", NOT_THERE, None),
        ("Blaze is 25 more than Spark at 9.90 and 34.90 [1].", FOUND, 1),
        ("The max_open_files setting defaults to 400 [4].", FOUND, 4),
        ("Greta Kaas tested it with Linux [2].", NOT_THERE, None),
    ],
)
def test_a_sentence_that_repeats_another_has_the_same_facts(sentence: str, verdict: str, number: int | None) -> None:
    passages = [
        make_hit(place, text=text, title=f"Part {place}", section="", language="en")
        for place, text in enumerate(MANUAL, 1)
    ]
    [proof] = Prover(passages).feed(sentence, is_last=True)
    assert (proof.verdict, proof.number) == (verdict, number), proof


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("The ferry leaves at 5.30 pm and at 7:15 a.m. [1].", FOUND),
        ("The ferry leaves at 5.30 am [1].", NOT_THERE),
        ("It has 27 cars of 4.2 t, together 113.4 t [1].", FOUND),
        ("It has 27 cars of 4.2 t, together 131.4 t [1].", NOT_THERE),
        ("The 12.0 sailors, 4 cooks and 2 officers are 18 people [1].", FOUND),
        ("The 12 sailors, 4 cooks and 2 officers are 51 people [1].", NOT_THERE),
        ('"Whoever rings `stop` on the bridge" halts it [1].', FOUND),
        ("Two tickets cost 17.20 [1].", UNCHECKED),
        ("Two tickets cost 17.80 [1].", NOT_THERE),
        ("The hull was built a hundred and sixty-five years before [1].", FOUND),
        ("The hull was built a hundred and sixty-six years before [1].", NOT_THERE),
        ("The waste code is 140603 [1].", FOUND),
        ("The waste code is 140306 [1].", NOT_THERE),
        ("The engine has 7 MW of power [1].", FOUND),
        ('Sailors who talk about that sign know it by the words "Long blast" [1].', FOUND),
    ],
)
def test_a_number_may_be_written_otherwise_or_follow_from_others(sentence: str, verdict: str) -> None:
    text = (
        "The ferry leaves at 07:15 and 17:30 and carries 27 cars of 4.2 t. One ticket costs 8.60. The hull was built "
        "165 years before, in a yard. Waste code: 14 06 03. The power of its engine is 7 megawatts. Long blast: go. "
        "Whoever rings `stop` on the bridge halts it. There are 3 masts, 12 sailors, 4 cooks and 2 officers."
    )
    [proof] = Prover([make_hit(1, text=text, title="Ferry", section="", language="en")]).feed(sentence, is_last=True)
    assert proof.verdict == verdict, proof


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("Here the product of both is 48 [1].", UNCHECKED),
        ("Here the product of both is 84 [1].", NOT_THERE),
        ("There are two choices: `mode: 5V` or `STORE MODE=5V` [1].", FOUND),
        ("Attach them with `ALTER INDEX ... ATTACH PARTITION` [1].", FOUND),
        ("Attach them with `ALTER INDEX ... DETACH PARTITION` [1].", NOT_THERE),
        ("The `fetch()`-Call sends 8 m² of them [1].", FOUND),
        ("It cannot hold dates before 13 December 1901 [1].", FOUND),
        ("It cannot hold dates before 13 November 1901 [1].", NOT_THERE),
        ("The second range is 60000 to 60999 [1].", NOT_THERE),
        ("Five advantages are named in it [1].", UNCHECKED),
        ("Der Speicher und die Zahl der Zeiger sind damit für Benutzer frei [1].", UNCHECKED),
        ("Der Speicher ist mit der Ausgabe `mode: 5V` für 7 Benutzer frei [1].", NOT_THERE),
        ("It can also read its input with several worker processes, if you split the file beforehand [1].", NOT_THERE),
    ],
)
def test_what_a_sentence_adds_is_told_from_what_it_says_in_other_words(sentence: str, verdict: str) -> None:
    text = (
        "With version 3.1, you have the choice of mode: 5V or STORE with MODE=5V. Use ALTER INDEX .. ATTACH PARTITION. "
        "A call of fetch() sends them to 8 square metres. It cannot hold a date before 1901-12-13T20:45:52. "
        "Ranges: 59999, 1000, 60000."
    )
    others = make_hit(2, text="Five advantages are here in it.", title="Named", section="", language="en")
    passages = [make_hit(1, text=text, title="Modes", section="", language="en"), others]
    [proof] = Prover(passages, "What do 12mm and 4 give?").feed(sentence, is_last=True)
    assert proof.verdict == verdict, proof


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("It is version 2.10.3 of 30 June 2025 and has 2.182.763 users [1].", FOUND),
        ("It is version 2.10.3 of 30 July 2025 [1].", NOT_THERE),
        ("It is version 2.1.3 [1].", NOT_THERE),
        ("It has 2.182.673 users [1].", NOT_THERE),
        ("It has about 2.18 billion pages [1].", UNCHECKED),
        ("For 5GB, 10,000 of them pay 7.5 euros at 38 degrees Celsius [1].", FOUND),
        ("They pay for 7GB [1].", NOT_THERE),
        ("They pay for the 3rd time [1].", FOUND),
        ("Nearly 12k users pay for it [1].", NOT_THERE),
        ("It is 10–60 % off for customers of T-Mobile [1].", NOT_THERE),
        ("It is used by T-Mobile [1].", FOUND),
        ("It is used by T-Systems [1].", NOT_THERE),
        ("It is used by Unilever [1].", NOT_THERE),
        ("E-Mail is not used by T-Mobile [1].", FOUND),
        ("Set PGHOST=db1 first [1].", FOUND),
        ("Set PGHOST=db2 first [1].", NOT_THERE),
        ("Run `fetch --keep=3 --to https://a.example/` [1].", FOUND),
        ("Run `fetch --keep=<number> --to https://<host>` [1].", FOUND),
        ("Run `fetch --drop=<number>` [1].", NOT_THERE),
        ('Send `{"name": "web"}` [1].', FOUND),
        ("Use `argv[2]` to run `fetch` [1].", FOUND),
        ("```sh\n# keep three of them\nfetch --keep=3  # not five\n```", FOUND),
        ("```sh\n# keep three of them\nfetch --drop=3\n```", NOT_THERE),
        ("東京駅は1914年に開業した[2]。", FOUND),
        ("東京駅は1915年に開業した[2]。", NOT_THERE),
    ],
)
def test_facts_in_other_notation(sentence: str, verdict: str) -> None:
    text = (
        "The tool is v2.10.3 of 30.06.2025 and has 2,182,763 users and 2,181.5 million pages. 10k of them pay 7,50 € "
        "for 5 GB at 38 °C. A third plan of 6 years is 10–40 % off for U.S. customers of T-Mobile. Set PGHOST=db1. "
        'Run `fetch --to https://a.example --keep=3` with argv[2], and send {"name": "web", "size": 4}.'
    )
    station = "東京駅は東京都千代田区にある。1914年12月20日に開業した。"
    passages = [
        make_hit(1, text=text, title="Tool", section="", language="en"),
        make_hit(2, text=station, language="ja"),
    ]
    [proof] = Prover(passages).feed(sentence, is_last=True)
    assert proof.verdict == verdict, proof


def test_brackets_in_code_are_no_citations():
    sentences = SentenceSplitter().feed("Use `a[3]` [1].\n```\nb[4]\n```\n", is_last=True)
    assert [[number for _, number in each.citations] for each in sentences] == [[1], []]
    assert [piece.text for each in sentences for piece in each.code] == ["a[3]", "b[4]"]


def test_the_first_numbers_of_a_question_need_no_proof():
    question = f"What do {' '.join(str(number) for number in range(1001, 1101))} give?"
    text = "There it is 2003. There it is 2199."
    assert [each.verdict for each in proofs(text, question)] == [UNCHECKED, NOT_THERE]


def test_a_lone_accent_is_a_word():
    [proof] = Prover([make_hit(1, text="Es sind \u0301 7 Teile.", language="de")]).feed("7 Teile [1].", is_last=True)
    assert proof.verdict == FOUND


def test_a_proof_shows_the_words_of_the_passage_and_what_differs():
    text = 'So: "it may be run by any user who owns the database" [3]. And there are 7 of Hopper [2].'
    altered, missing = proofs(text)
    assert altered.source == "it may be run by any user who owns the table"
    assert altered.span
    assert TEXTS[2][slice(*altered.span)] == altered.source
    assert [text[start:end] for start, end in altered.differing] == ["database"]
    assert altered.link == "https://docs.example/3#:~:text=it%20may%20be%20run%20by,owns%20the%20table"
    assert [text[start:end] for start, end in missing.differing] == ["7", "Hopper"]
    assert (altered.is_quotation, missing.is_quotation) == (True, False)


def test_words_of_the_question_need_no_proof():
    question = 'What is a "snark" in Boojum 9?'
    assert [each.verdict for each in proofs('Nothing is said of "snark". Boojum 9 is not there.', question)] == [
        UNCHECKED,
        UNCHECKED,
    ]


def test_a_quotation_of_another_document_is_looked_up():
    other = make_hit(9, text="Snow falls softly on the hills.", title="Snow", url="https://docs.example/snow")
    asked: list[str] = []

    def lookup(text: str) -> Sequence[Hit]:
        asked.append(text)
        return [other] if "Snow" in text else []

    first, second = proofs('It is said that "Snow falls softly" [1]. And "it is green" [1].', lookup=lookup)
    assert (first.verdict, first.number, first.url) == (ELSEWHERE, None, other.url)
    assert second.verdict == NOT_THERE
    assert asked == ["Snow falls softly", "it is green"]


ANSWER = """It is "built over a subset
of a table" [1], e.g. for some rows. See v. 3.14 of it. [1]
"Foo bar. Baz qux." [3] And 'no one' isn't users' fault. \U0001f600

> Vacuum reclaims the storage. That is all. [3]

1. First costs 5. Next.
```sql
SELECT 1;
  VACUUM full;
```
Done "unclosed"""


def test_sentences_are_the_same_whatever_pieces_they_come_in():
    def sentences(size: int) -> list[Sentence]:
        splitter = SentenceSplitter()
        pieces = [ANSWER[start : start + size] for start in range(0, len(ANSWER), size)]
        return [each for piece in pieces for each in splitter.feed(piece)] + splitter.feed("", is_last=True)

    whole = sentences(len(ANSWER))
    assert [ANSWER[each.start : each.end].split("\n")[0] for each in whole] == [
        'It is "built over a subset',
        'of a table" [1], e.g. for some rows.',
        "See v. 3.14 of it. [1]",
        "\"Foo bar. Baz qux.\" [3] And 'no one' isn't users' fault.",
        "\U0001f600",
        "> Vacuum reclaims the storage. That is all. [3]",
        "1. First costs 5.",
        "Next.",
        "```sql",
        'Done "unclosed',
    ]
    assert [piece.text for piece in whole[-2].code] == ["SELECT 1;", "VACUUM full;"]
    for size in (1, 2, 3, 7, 50):
        assert sentences(size) == whole, size


def test_a_strict_answer_leaves_out_sentences_with_quotations_of_no_passage():
    text = ' It is so [1]. They say "made of cheese" [1]. "Vacuum reclaims" all [3]. There are 7 [1]. The end'
    for size in (1, 5, 1000):
        proved = ProvedText(Prover(hits()), is_strict=True)
        events: list[tuple[str, dict[str, Any]]] = []
        for start in range(0, len(text), size):
            events += proved.feed(text[start : start + size])
        events += proved.feed("", is_last=True)
        shown = "".join(value["text"] for name, value in events if name == "token")
        assert shown == text.replace('They say "made of cheese" [1].', LEFT_OUT)
        spans = [(value["start"], value["end"]) for name, value in events if name == "proof"]
        assert [shown[start:end] for start, end in spans] == [
            "It is so [1].",
            LEFT_OUT,
            '"Vacuum reclaims" all [3].',
            "There are 7 [1].",
            "The end",
        ]


HOSTILE = (
    '"the subset of a table" [1]. ', '"the ', "“", "'a ", "'a'a ", "a. ", "```\n", "> x\n", "«", ".", "[1]", "1843 ",
    '"table table table table table" ', "「表の」", "Ada ", "`--max` ", "https://a.b/c ", "https://", "** ", "a@b.",
    "`a <b>` ", "```\n# a\n```\n",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_the_time_is_linear(part: str) -> None:
    def prove(text: str) -> object:
        return list(Prover([replace(hit, text=hit.text * 2) for hit in hits()]).feed(text, is_last=True))

    check_linear(prove, lambda size: part * (size // len(part)), 20_000)


@pytest.mark.parametrize("part", ["Foo bar {n}, ", "word is {n}; ", "Foo {n}. ", "- Foo\n", "Foo | {n} |\n"])
def test_a_sentence_is_compared_with_a_passage_in_linear_time(part: str) -> None:
    def prove(text: str) -> list[Proof]:
        passage = make_hit(1, text=text, title="A", section="", language="en")
        return list(Prover([passage]).feed("The word bar of Foo is 7, or bar 8 of Foo Bar 9 [1].", is_last=True))

    check_linear(prove, lambda size: "".join(part.format(n=n) for n in range(size // len(part))), 20_000)


def test_names_are_compared_with_names_in_linear_time() -> None:
    def name(number: int, middle: str) -> str:
        return f"N{middle}{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number // 676 % 26)}"

    def prove(count: int) -> list[Proof]:
        passage = make_hit(1, text=" ".join(name(n, "o") for n in range(count)), title="A", section="", language="en")
        return list(Prover([passage]).feed("It is " + " ".join(name(n, "i") for n in range(count)), is_last=True))

    check_linear(prove, lambda count: count, 4_000)


@pytest.mark.parametrize("sentence", ["The host is 10.1.2.3 [1].", "The host is 10.1.2.3. [1]"])
def test_an_address_before_a_full_stop_is_one_fact(sentence: str) -> None:
    [proof] = Prover([make_hit(1, text="The host is 10.1.3.2.", title="A", section="", language="en")]).feed(
        sentence, is_last=True
    )
    assert proof.verdict == NOT_THERE
