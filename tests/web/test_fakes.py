"""What stands in for the retriever and the jobs has their methods, with the same arguments and the same fields."""

import inspect

import pytest

from rag.jobs.jobs import JobManager
from rag.serving.live import LiveRetriever, OpenDocument
from tests.rag.conftest import Site, site  # noqa: F401 - a fixture
from tests.web.fakes import FakeDocument, FakeJobs, FakeRetriever
from tests.web.running import serving

STEERING = {"calls", "document_of"}  # for tests alone
NOT_FAKED = {"start", "grep", "checking_on_failure", "headings"}


@pytest.mark.parametrize(
    ("fake", "real"), [(FakeRetriever, LiveRetriever), (FakeDocument, OpenDocument), (FakeJobs, JobManager)]
)
def test_methods(fake: type, real: type) -> None:
    names = {name for name in dir(real) if not name.startswith("_") and inspect.isroutine(getattr(real, name))}
    faked = {name for name in dir(fake) if not name.startswith("_")} - STEERING
    assert faked <= names | {name for name in dir(real) if isinstance(getattr(real, name), property)}
    assert names - faked <= NOT_FAKED
    for name in faked & names:
        of_fake, of_real = (inspect.signature(getattr(kind, name)).parameters for kind in (fake, real))
        assert [(each.name, each.kind, each.default) for each in of_fake.values()] == [
            (each.name, each.kind, each.default) for each in of_real.values()
        ], name


def test_fields(site: Site) -> None:  # noqa: F811 - the fixture
    site.build()
    fake = FakeRetriever()
    with serving(site.index) as live:
        assert fake.status().keys() <= live.status().keys()
        assert fake.status()["collections"][0].keys() == live.status()["collections"][0].keys()
        assert fake.describe().keys() == live.describe().keys()
        assert fake.overview().keys() == live.overview().keys()
        [of_fake, *_], [of_live, *_] = fake.documents(), live.documents()
        assert of_fake.facts.keys() == of_live.facts.keys()
        assert of_fake.passages(0, 1)[0].keys() == of_live.passages(0, 1)[0].keys()
