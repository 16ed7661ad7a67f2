"""Tables of separated values as programs of many countries write them."""

import pytest

from indexer import notes
from indexer.read.files import separated

TABLES = {
    "a semicolon named": ("sep=;\r\nName;Town\r\nAnna;Oslo\r\n", "Name: Anna | Town: Oslo"),
    "a tab named": ('"sep=\t"\nName\tTown\nAnna\tOslo', "Name: Anna | Town: Oslo"),
    "an unusual one named": ("SEP=^\nName^Town\nAnna, Bo^Oslo", "Name: Anna, Bo | Town: Oslo"),
    "a byte order mark before the name": ("\ufeffsep=,\nName,Town\nAnna,Oslo", "Name: Anna | Town: Oslo"),
    "decimal commas": ("Pier;Length\nOld;1,5\nNew;2,5", "Pier: Old | Length: 1,5\nPier: New | Length: 2,5"),
    "only decimal commas": ("1,5;2,5\n3,5;4,5", "1,5 | 2,5\n3,5 | 4,5"),
    "commas in words": ("Name|Towns\nAnna|Oslo, Rome\nBo|Bonn, Bern",
                        "Name: Anna | Towns: Oslo, Rome\nName: Bo | Towns: Bonn, Bern"),
    "quotes after spaces": ('Name, Town\nAnna, "Oslo, old town"', "Name: Anna | Town: Oslo, old town"),
    "quotes behind backslashes": ('Name,Says\nAnna,"the \\"old\\", pier"', 'Name: Anna | Says: the "old", pier'),
    "a title with a comma": ("Fares, May\n\nZone;Ticket;Price\nPort;Day;3,40\nQuay;Day;2,10",
                             "Fares, May\nZone: Port | Ticket: Day | Price: 3,40\n"
                             "Zone: Quay | Ticket: Day | Price: 2,10"),
    "empty rows before the head": ("\n,,\nZone,Price\nPort,3", "Zone: Port | Price: 3"),
    "years": ("Region,2023,2024\nNorth,510,640\nSouth,1,2",
              "Region: North | 2023: 510 | 2024: 640\nRegion: South | 2023: 1 | 2024: 2"),
    "two rows of names": ("Region,Sales,,\n,Q1,Q2,Q3\nNorth,5,6,7\nSouth,1,2,3",
                          "Region: North | Sales Q1: 5 | Sales Q2: 6 | Sales Q3: 7\n"
                          "Region: South | Sales Q1: 1 | Sales Q2: 2 | Sales Q3: 3"),
    "units": ("Station,Height,Rain\n,m,mm\nPier,4,12\nHill,310,30",
              "Station: Pier | Height m: 4 | Rain mm: 12\nStation: Hill | Height m: 310 | Rain mm: 30"),
    "line ends of old Macs": ("Name,Town\rAnna,Oslo\r", "Name: Anna | Town: Oslo"),
    "a title, names and nothing else": ("Fares of the port,\nZone,Price\n", "Fares of the port\nZone | Price"),
    "names and nothing else": ("Name,Town\n", "Name | Town"),
    "two tables": (
        "Zone,Price\nPort,3\nQuay,4\n\nBoats,\nBoat,Crew\nGull,5\nTern,6\n",
        "Zone: Port | Price: 3\nZone: Quay | Price: 4\nBoats\nBoat: Gull | Crew: 5\nBoat: Tern | Crew: 6",
    ),
    "groups with an empty row between": (
        "Zone,Price\nPort,3\n\nQuay,4\n,\n\nPier,5\nMole,6\n",
        "Zone: Port | Price: 3\nZone: Quay | Price: 4\nZone: Pier | Price: 5\nZone: Mole | Price: 6",
    ),
    "groups of words": (
        "Name,Town\nAnna,Oslo\n\nBo,Rome\nEve,Bonn",
        "Name: Anna | Town: Oslo\nName: Bo | Town: Rome\nName: Eve | Town: Bonn",
    ),
    "lines in cells": ('Name,Note\nAnna,"one\n\ntwo; three"', "Name: Anna | Note: one two; three"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "expected"), TABLES.values(), ids=TABLES)
def test_tables(table: str, expected: str) -> None:
    [section] = separated.read_csv(table.encode(), None).sections
    assert section.text == expected


def test_a_cell_that_is_cut_off_is_noted() -> None:
    notes.take()
    separated.read_csv(b"a,b\n1," + b"x" * 20_000, None)
    assert notes.take() == ("a long cell of a table was cut off",)
