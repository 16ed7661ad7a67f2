"""What the manifests of several generations say together."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from indexer.errors import PartsDiffer
from indexer.generation.manifest import Counts, Manifest, differing_fields


def joint_id(ids: Sequence[str]) -> str:
    """Return the id of generations as one: theirs where it is one, else the time of the newest and a digest of all."""
    if len(set(ids)) == 1:
        return ids[0]
    return f"{max(ids).partition('-')[0]}-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:6]}"


def joint_manifest(parts: Mapping[str, Manifest]) -> Manifest:
    """Return what the manifests of parts, by their name, say together.

    Raises PartsDiffer if they are of different embedders.
    """
    manifests = list(parts.values())
    first, first_name = manifests[0], next(iter(parts))
    for name, manifest in parts.items():
        fields = differing_fields(first.fingerprint, manifest.fingerprint)
        if manifest.counts.dimension != first.counts.dimension:
            fields = sorted({*fields, "dimension"})
        if fields:
            raise PartsDiffer(
                f"{name} and {first_name} were built with different embedders ({', '.join(fields)}), so they cannot be "
                "searched as one: build one of them again"
            )
    is_whole = len({manifest.id for manifest in manifests}) == 1  # divided among the parts, each of which has it all
    languages: Counter[str] = Counter()  # how many passages each has is not known, only the order in each part
    for manifest in manifests:
        for place, language in enumerate(manifest.languages):
            languages[language] += manifest.counts.chunks >> place
    return replace(
        first,
        id=joint_id([manifest.id for manifest in manifests]),
        created_at=max(manifest.created_at for manifest in manifests),
        counts=Counts(
            sum(manifest.counts.documents for manifest in manifests),
            sum(manifest.counts.chunks for manifest in manifests),
            first.counts.dimension,
        ),
        files={},
        sources=list(dict.fromkeys(chain.from_iterable(manifest.sources for manifest in manifests))),
        report=first.report if is_whole else _sum([manifest.report for manifest in manifests]),
        languages=tuple(language for language, _ in languages.most_common()),
        schema_version=max(manifest.schema_version for manifest in manifests),
        analysis=min(manifest.analysis for manifest in manifests),
    )


def _sum(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Reports of builds as one: numbers are added, lists joined."""
    total: dict[str, Any] = {}
    for report in reports:
        for name, value in report.items():
            before = total.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                total[name] = _sum([before, value])
            elif isinstance(before, list) and isinstance(value, list):
                total[name] = [*before, *value]
            elif _is_number(before) and _is_number(value):
                total[name] = before + value
            else:
                total[name] = value
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
