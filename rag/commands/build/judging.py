"""The judge of new generations that the settings ask for."""

from pathlib import Path

from embedder.protocol import Embedder
from indexer.generation.manifest import Manifest, differing_fields
from indexer.publish.held_back import Judge
from rag.errors import SettingsError
from rag.settings import Settings


def judge_of(settings: Settings, embedder: Embedder, *, quiet: bool = False) -> Judge | None:
    """Return what compares a new generation, made by an embedder, with the live one; None if none is asked for.

    The questions are read here, before anything is built. Raises DatasetError, or SettingsError without the extra.
    """
    if not settings.hold_back_queries:
        return None
    try:
        from rag.evaluation.hold_back import GenerationJudge
    except ModuleNotFoundError as error:
        raise SettingsError("hold_back_queries needs: pip install 'pilotlight[eval]'") from error
    from rag.commands.embedders import made_for, plans, prepare
    from rag.evaluation.dataset import read_questions
    from rag.models.loaded_models import LoadedModels
    from rag.query.request import Limits
    from rag.serving.live import load_embedder

    models = LoadedModels(settings, load_embedder)

    def embedder_of(manifest: Manifest) -> Embedder:
        if not differing_fields(embedder.fingerprint, manifest.fingerprint):
            return embedder
        for plan in plans(made_for(settings, manifest))[:1]:
            prepare(plan, quiet=quiet)
        return models.get(manifest).embedder

    queries, judgements = read_questions(Path(settings.hold_back_queries).expanduser())
    return GenerationJudge(queries, judgements, settings.hold_back, Limits.of(settings), embedder_of, quiet=quiet)
