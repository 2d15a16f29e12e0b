"""The data of the book: fetched once, checked always, split the same way everywhere.

`sources` fetches the pinned files, `g2p` reads words and their pronunciations,
`text` reads running text.
"""

from .g2p import G2PData, load_cmudict, load_g2p, part_of, read_pairs
from .sources import SOURCES, DataError, data_dir, data_hash, fetch, member
from .text import TextData, load_shakespeare, read_text

__all__ = [
    "SOURCES",
    "DataError",
    "G2PData",
    "TextData",
    "data_dir",
    "data_hash",
    "fetch",
    "load_cmudict",
    "load_g2p",
    "load_shakespeare",
    "member",
    "part_of",
    "read_pairs",
    "read_text",
]
