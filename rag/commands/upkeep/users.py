"""The part of the doctor's report that tells how users are known, and what of it cannot work."""

from typing import Any

from embedder.errors import PilotlightError
from rag.settings import Settings
from rag.users.directory import Directory


def examine_users(settings: Settings, warnings: list[str]) -> dict[str, Any]:
    """Return who names users and how many rules there are; no secret is shown."""
    report: dict[str, Any] = {
        "user_header": settings.user_header or None,
        "user_proxies": settings.user_proxies or None,
        "rules": None,
    }
    try:
        if settings.access_file:
            report["rules"] = len(Directory(settings.access_path).rules())
        elif settings.knows_users:
            warnings.append("users have no access without [[access]] in the file of --config")
    except PilotlightError as error:
        warnings.append(str(error))
    return report
