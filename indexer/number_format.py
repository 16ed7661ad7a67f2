"""Numbers as they are told to people."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 page`, `2 pages`, `1,000 pages`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def plain(number: float) -> str:
    """Return a number in digits, never in powers of ten: `100,000,000`, `0.01`."""
    return f"{number:,.16g}"
