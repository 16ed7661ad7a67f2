"""The adapter of LangChain in a chain."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from rag.adapters.langchain import PilotlightRetriever
from rag.query.request import Filter
from tests.web.fakes import FakeRetriever, make_hit


@pytest.fixture
def retriever():
    found = FakeRetriever()
    found.hits = [make_hit(n, text=f"text {n}", metadata={"team": "core", "title": "x"}) for n in range(1, 9)]
    return found


def test_a_chain_of_langchain(retriever):
    finder = PilotlightRetriever(searcher=retriever, k=2, mode="dense", filter={"language": "en"}, collection="notes")
    prompts = []

    class Model(FakeListChatModel):
        def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            prompts.append(messages[0].content)
            return super()._call(messages, *args, **kwargs)

    def as_text(documents: list[Any]) -> str:
        return "\n".join(f"{document.page_content} ({document.metadata['source']})" for document in documents)

    chain = (
        {"context": finder | as_text, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
        | Model(responses=["It is.", "So it is."])
        | StrOutputParser()
    )
    assert chain.invoke("is it?") == "It is."
    with ThreadPoolExecutor() as pool:  # as a browser of another test may have a loop in this thread
        assert pool.submit(asyncio.run, chain.ainvoke("is it?")).result() == "So it is."
    [prompt, again] = prompts
    assert prompt == again
    assert prompt.startswith("text 1 (https://docs.example/indexes/partial.html#part-1)\ntext 2 (")
    assert prompt.endswith("\nQuestion: is it?")
    assert retriever.calls == [("is it?", 2, "dense")] * 2
    assert retriever.requests[0].filter == Filter.parse({"language": "en"})
    assert retriever.requests[0].collection == "notes"
