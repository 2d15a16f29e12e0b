"""The data of the book: fetched once, checked always, split the same way everywhere.

`sources` fetches the pinned files, `g2p` reads words and their pronunciations,
`text` reads running text, `alignments` which letters say which phone.
"""

from .alignments import Alignment, by_hand, read_gruut
from .g2p import G2PData, load_cmudict, load_g2p, part_of, read_pairs
from .sources import SOURCES, DataError, data_dir, data_hash, fetch, member, read_own
from .text import TextData, load_shakespeare, read_text

__all__ = [
    "SOURCES",
    "Alignment",
    "DataError",
    "G2PData",
    "TextData",
    "by_hand",
    "data_dir",
    "data_hash",
    "fetch",
    "load_cmudict",
    "load_g2p",
    "load_shakespeare",
    "member",
    "part_of",
    "read_gruut",
    "read_own",
    "read_pairs",
    "read_text",
]
