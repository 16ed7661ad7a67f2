"""What is known of languages: Tantivy's Snowball stemmers and lists of stop words, by the code of the language."""

from functools import cache

import tantivy

from indexer.generation.lexical.method_cache import remembers_words

ENGLISH = "en"
STEMMERS = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish",
}  # fmt: skip
_WITHOUT_STOP_WORDS = {"ar", "el", "ro", "ta", "tr"}  # of which Tantivy has no list
# Too common to tell one passage from another; they are indexed, and looked for where a query has nothing else.
STOP_WORDS = frozenset(
    "a an and are as at be but by can could did do does for from had has have how i if in into is it its me my no not "
    "of on or our shall should so such than that the their them then there these they this to was we were what when "
    "where which who whom why will with would you your".split()
)


def stem(word: str, language: str) -> str:
    """Return the stem of a folded word by the rules of one of `STEMMERS`."""
    return str(_analyzer(language).analyze(word)[0])


@remembers_words(1 << 14)
def is_stop_word(word: str, language: str) -> bool:
    """Return whether a word, in lower case, is too common in one of `STEMMERS`."""
    if language == ENGLISH:
        return word in STOP_WORDS
    return language not in _WITHOUT_STOP_WORDS and not _stop_filter(language).analyze(word)


@cache
def _analyzer(language: str) -> tantivy.TextAnalyzer:
    stemmer = tantivy.Filter.stemmer(STEMMERS[language])
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(stemmer).build()


@cache
def _stop_filter(language: str) -> tantivy.TextAnalyzer:
    words = tantivy.Filter.stopword(STEMMERS[language])
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(words).build()
