"""CMUdict as it was measured, its split, and readers' own pairs."""

from __future__ import annotations

import hashlib
import re

import pytest

from transformer_lab.data import DataError, G2PData, fetch, load_cmudict, load_g2p, sources
from transformer_lab.data import part_of as part
from transformer_lab.data.g2p import PARTS, read_pairs


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    """Have the data; nothing happens where they are already there."""
    fetch(["cmudict"], report=lambda line: None)


@pytest.fixture(scope="module")
def g2p(fetched) -> G2PData:
    return load_g2p()


# ---- the dictionary -------------------------------------------------------------


def test_sizes_without_and_with_stress():
    plain, stressed = load_cmudict(), load_cmudict(stress=True)
    assert len(plain) == len(stressed) == 124_926
    assert sum(map(len, plain.values())) == 133_667
    assert sum(map(len, stressed.values())) == 133_971
    assert sum(len(several) > 1 for several in plain.values()) == 8_113
    assert plain["hello"] == (("HH", "AH", "L", "OW"), ("HH", "EH", "L", "OW"))
    assert stressed["hello"][0] == ("HH", "AH0", "L", "OW1")


def test_symbols(g2p):
    assert "".join(g2p.source_symbols) == "'abcdefghijklmnopqrstuvwxyz"
    assert len(g2p.target_symbols) == 39 and len(load_g2p(stress=True).target_symbols) == 69
    assert g2p.target_symbols == tuple(sorted(g2p.target_symbols))
    assert not any(symbol[-1].isdigit() for symbol in g2p.target_symbols)


def test_comments_are_cut_and_odd_words_dropped():
    lines = sources.member("cmudict", "cmudict.dict").decode("utf-8").splitlines()
    words = load_cmudict(stress=True)
    commented = [line for line in lines if "#" in line]
    assert len(commented) == 22
    assert words["aalborg"] == (tuple("AO1 L B AO0 R G".split()), tuple("AA1 L B AO0 R G".split()))
    assert not any("#" in phones for several in words.values() for phones in several)
    heads = {re.sub(r"\(\d+\)$", "", line.split(" ")[0]) for line in lines if line}
    assert len(heads) == 126_052 and len(heads) - len(words) == 1_126
    assert "a.m." in heads and "a.m." not in words
    # words with an apostrophe stay, but for those that are dropped for a dot or a hyphen
    assert "o'clock" in words and sum("'" in head for head in heads) == 7_478
    assert sum("'" in word for word in words) == 7_433


def test_variants_are_answers_to_one_word():
    assert load_cmudict()["either"] == (("IY", "DH", "ER"), ("AY", "DH", "ER"))
    # two variants that differ in stress only become one
    stressed, plain = load_cmudict(stress=True)["abstract"], load_cmudict()["abstract"]
    assert len(stressed) > len(plain) == len(set(plain))


# ---- the split ------------------------------------------------------------------


def test_sizes_of_the_parts(g2p):
    assert [len(g2p.entries(name)) for name in PARTS] == [116_151, 2_510, 6_265]
    assert len(g2p.pairs("train")) == 124_285
    assert len(g2p.pairs("test")) == 6_689
    assert sum(len(several) > 1 for _, several in g2p.test) == 403


def test_a_word_is_in_one_part_whatever_comes_with_it(g2p):
    words = [{word for word, _ in g2p.entries(name)} for name in PARTS]
    assert not words[0] & words[1] and not words[0] & words[2] and not words[1] & words[2]
    assert all(part(word) == name for name in PARTS for word, _ in g2p.entries(name)[:500])
    # SHA-256 of these words begins so that the rest modulo 1000 is 4, 58, 72 and 342
    words = ("pneumonia", "calgary", "transformer", "hello")
    digests = [hashlib.sha256(word.encode("ascii")).hexdigest() for word in words]
    assert [int(digest[:16], 16) % 1000 for digest in digests] == [4, 58, 72, 342]
    assert [part(word) for word in words] == ["test", "dev", "train", "train"]


def test_pairs_flatten_the_entries():
    data = G2PData((("ab", (("A",), ("B", "C"))),), (("d", (("D",),)),), (("'", (("E",),)),))
    assert data.pairs("train") == [("ab", ("A",)), ("ab", ("B", "C"))]
    assert data.source_symbols == ("'", "a", "b", "d")
    assert data.target_symbols == ("A", "B", "C", "D", "E")
    with pytest.raises(ValueError, match="one of train, dev, test, not 'valid'"):
        data.pairs("valid")


# ---- a reader's own pairs -------------------------------------------------------


def lines_of_pairs(n: int) -> list[str]:
    return [f"word{i}\tW {i}" for i in range(n)]


def write(path, lines, encoding="utf-8", end="\n"):
    path.write_bytes(end.join([*lines, ""]).encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_own_pairs(tmp_path, encoding, end):
    lines = [*lines_of_pairs(300), "", "größe\tɡ ʁ øː s ə", "word7\tV 7", "word7\tW 7"]
    data = read_pairs(write(tmp_path / "own.tsv", lines, encoding, end))
    entries = {word: several for name in PARTS for word, several in data.entries(name)}
    assert len(entries) == 301
    assert entries["word7"] == (("W", "7"), ("V", "7"))
    assert entries["größe"] == (("ɡ", "ʁ", "øː", "s", "ə"),)
    assert all(part(word) == name for name in PARTS for word, _ in data.entries(name))
    assert {"ö", "ß", "w"} <= set(data.source_symbols) and "øː" in data.target_symbols


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("word W", "line 301: no tab, but exactly one must stand between source and target"),
        ("a\tb\tc", "line 301: 2 tabs, but exactly one"),
        ("word\t ", "line 301: the target is empty"),
        (" \tW", "line 301: the source is empty"),
    ],
)
def test_own_pairs_with_a_bad_line(tmp_path, line, told):
    path = write(tmp_path / "own.tsv", [*lines_of_pairs(300), line])
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"{path}, {told}")


def test_own_pairs_in_another_encoding(tmp_path):
    path = write(tmp_path / "own.tsv", ["one\tW", "größe\tG"], "latin-1")
    with pytest.raises(DataError, match=r"line 2: not UTF-8, byte 0xf6 at offset 8"):
        read_pairs(path)


@pytest.mark.parametrize("lines", [[], ["", "  ", "\t"]])
def test_own_pairs_without_a_pair(tmp_path, lines):
    with pytest.raises(DataError, match="is empty: it must hold lines"):
        read_pairs(write(tmp_path / "own.tsv", lines))


def test_own_pairs_too_few_to_split(tmp_path):
    with pytest.raises(DataError, match=r"3 different sources .* give a few hundred") as caught:
        read_pairs(write(tmp_path / "own.tsv", lines_of_pairs(3)))
    assert "the part dev" in str(caught.value)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a" * 201 + "\tA", r"line 3: .* at most 200 symbols, but one holds 201"),
        ("b\t" + "A " * 300, r"line 3: .* at most 200 symbols, but one holds 300"),
        ("b\tA <eos>", r"line 3: <eos> is a symbol of the program's own"),
    ],
)
def test_lines_that_training_could_not_take_are_refused(tmp_path, line, message):
    file = tmp_path / "pairs.tsv"
    file.write_text(f"cat\tK AE T\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_pairs(file)


def test_composed_and_decomposed_accents_are_one_word(tmp_path):
    words = [f"w{i}" for i in range(400)] + ["cafe\u0301", "caf\u00e9"]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{w}\tA\n" for w in words), encoding="utf-8")
    data = read_pairs(file)
    assert sum(len(data.entries(part)) for part in ("train", "dev", "test")) == 401
