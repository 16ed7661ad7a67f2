"""Which languages a model knows, by how its tokenizer breaks them up."""

import pytest

from indexer.generation.languages import LanguageStats, unknown_languages

EN, EL, TR = LanguageStats("en", 50, 0.05), LanguageStats("el", 50, 0.95), LanguageStats("tr", 1, 0.3)


@pytest.mark.parametrize(
    ("languages", "named"),
    [
        ([EN], ""),
        ([EN, EL], "Greek (50 % of passages)"),
        ([EL, TR, EN], "Greek (50 % of passages)"),  # Turkish is too rare
        ([EL, LanguageStats("tr", 50, 0.3), LanguageStats("xx", 100, 0.5)],
         "Greek (25 % of passages), Turkish (25 % of passages) or language xx (50 % of passages)"),
        ([LanguageStats(None, 9, 0.9)], "other languages (100 % of passages)"),
    ],
)  # fmt: skip
def test_what_the_model_does_not_know_is_named(languages, named):
    advice = "; --model multilingual-e5-small knows about 100 languages"
    assert unknown_languages(languages, "") == (
        f"the model does not know {named}: matching words decide the ranking{advice}" if named else ""
    )
    assert advice not in unknown_languages(languages, "multilingual-e5-small")
