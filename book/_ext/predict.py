r"""Predictions: a question to commit to, and what follows stays hidden until it is answered.

    :::{predict-start} variance-mean-one
    :choices: $d_k$ | $2 d_k$ | $3 d_k$
    :answer: 3
    :why: Shown with the verdict. {glue:text}`name` and TeX may stand here.
    The question, in MyST.
    :::

    (anything at the top level of the section: text, code cells, figures)

    :::{predict-end}
    :::

There are three kinds of answer, and each prediction has one of them:

- `:answer: 3`, the number of the right one of the `:choices:`, which ` | ` separates;
- `:number: 3.0`, with `:tolerance:` (what still counts as right, 0 if not given) and `:unit:`;
- `:free:`, where nothing is right or wrong: the reader writes something down, or takes one of
  the `:choices:` if there are some.

`:answer:`, `:number:` and `:tolerance:` also take `glue:NAME`, a value that a cell of the same
page has glued, before or after the question. MyST-NB has run the whole page when it parses it, so
the value is at hand.

Without JavaScript the page shows everything, the answer in a folded box. `predict.js` makes a form
of the question and hides what `predict-start` and `predict-end` enclose; the script and its style
sheet are loaded only by pages that have a prediction. What an author can get wrong is an error of
the build, in a sentence.
"""

from __future__ import annotations

import hashlib
import re
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from myst_nb.ext.glue.utils import RetrievalError, retrieve_glue_data
from predict_options import PredictionError, Question, read_options
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class PredictElement(nodes.General, nodes.Element):
    """An element of HTML: `tag` is its name, `html` its attributes."""


class PredictBox(PredictElement):
    """The question with its choices and its answer; opens what is hidden."""


class PredictEnd(nodes.Invisible, nodes.Element):
    """The place where what is hidden ends; only the transform below sees it."""


def glued(document: nodes.document, name: str) -> str:
    """The text of a value that a cell of this page has glued, without quotes around it."""
    try:
        data = retrieve_glue_data(document, name).data
    except RetrievalError:
        raise PredictionError(
            f"glue:{name} is asked for, but no cell of this page glues {name!r}; "
            f"write glue({name!r}, value, display=False) in one"
        ) from None
    text = data.get("text/plain", "")
    quoted = re.fullmatch(r"'([^'\\]*)'|\"([^\"\\]*)\"", text)
    numpy = re.fullmatch(r"np\.\w+\((.*)\)", text)
    return next((part for m in (quoted, numpy) if m for part in m.groups() if part), text)


# ---- Directives -------------------------------------------------------------------------


def element(tag: str, *children: nodes.Node, classes: str = "", **html: str) -> PredictElement:
    """An element of HTML with children."""
    ids = [html.pop("id")] if "id" in html else []
    return PredictElement("", *children, tag=tag, html=html, ids=ids, classes=classes.split())


class PredictStart(SphinxDirective):
    """The question; what follows is hidden until it is answered."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {
        "choices": directives.unchanged,
        "answer": directives.unchanged,
        "number": directives.unchanged,
        "tolerance": directives.unchanged,
        "unit": directives.unchanged,
        "why": directives.unchanged,
        "free": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """The box; an empty one after an error, so that its end is not an error too."""
        name = self.arguments[0]
        box = PredictBox(tag="div", html={}, classes=["td-predict"], prediction=name)
        self.set_source_info(box)
        try:
            self.fill(box, name)
        except PredictionError as error:
            where = self.get_location()
            LOGGER.error("predict-start %s: %s", name, error, location=where)
        return [box]

    def fill(self, box: PredictBox, name: str) -> None:
        """Give the box its attributes, question, choices and answer."""
        if not ID.fullmatch(name):
            raise PredictionError(
                "the name has small letters, digits and hyphens and begins with a letter, "
                f"as in rare-words; not {name!r}"
            )
        if not any(line.strip() for line in self.content):
            raise PredictionError("there is no question; write it below the options")
        options = {key: value or "" for key, value in self.options.items()}
        source = repr((sorted(options.items()), list(self.content)))
        for key in ("answer", "number", "tolerance"):
            if options.get(key, "").startswith("glue:"):
                options[key] = glued(self.state.document, options[key][len("glue:") :].strip())
        question = read_options(options)
        own = f"predict-{name}"
        box["ids"] = [own]
        box["html"] = {
            "role": "group",
            "aria-labelledby": f"{own}-title",
            "data-page": self.env.docname,
            "data-kind": question.kind,
            "data-version": hashlib.sha256(source.encode()).hexdigest()[:8],
        }
        if question.right is not None:
            box["html"]["data-right"] = str(question.right)
        if question.number is not None:
            box["html"] |= {
                "data-number": repr(question.number),
                "data-tolerance": repr(question.tolerance),
                "data-unit": question.unit,
            }
        box += element("p", nodes.Text("Predict"), classes="td-predict-title", id=f"{own}-title")
        asked = self.parse_content_to_nodes()
        box += element("div", *asked, classes="td-predict-question", id=f"{own}-question")
        if question.choices:
            items = [self.choice(choice) for choice in question.choices]
            box += element("ol", *items, classes="td-predict-choices")
        box += self.answer(question, options.get("why", ""))

    def inline(self, text: str) -> list[nodes.Node]:
        """MyST inside a line."""
        found, messages = self.parse_inline(text)
        return [*found, *messages]

    def choice(self, text: str) -> PredictElement:
        """A choice; one with a formula also has a name for those who hear it."""
        item = element("li", *self.inline(text))
        if next(iter(item.findall(nodes.math)), None) is not None:
            item["html"] = {"data-name": item.astext()}
        return item

    def answer(self, question: Question, why: str) -> list[nodes.Node]:
        """The folded box with the right answer and the reason; nothing if there is neither."""
        parts: list[nodes.Node] = []
        if question.right is not None:
            parts = self.inline(question.choices[question.right])
        elif question.shown is not None:
            parts = [nodes.Text(f"{question.shown} {question.unit}".strip())]
        body: list[nodes.Node] = []
        if parts:
            right = element("strong", *parts, classes="td-predict-right")
            body.append(element("p", nodes.Text("It is "), right, nodes.Text(".")))
        if why:
            body.append(element("div", *self.parse_text_to_nodes(why), classes="td-predict-why"))
        if not body:
            return []
        title = element("summary", nodes.Text("The answer" if parts else "Afterwards"))
        return [element("details", title, *body, classes="td-predict-answer")]


class PredictStop(SphinxDirective):
    """Here what is hidden ends."""

    def run(self) -> list[nodes.Node]:
        """A mark for the transform."""
        end = PredictEnd()
        self.set_source_info(end)
        return [end]


# ---- What stands between, in one element ------------------------------------------------


class Enclose(SphinxTransform):
    """Put what stands between a start and its end into one element after the box."""

    default_priority = 200  # before names and targets are settled

    def apply(self) -> None:
        """Go through the marks in their order."""
        marks = self.document.findall(lambda node: isinstance(node, (PredictBox, PredictEnd)))
        start: PredictBox | None = None
        seen: dict[str, PredictBox] = {}
        for mark in list(marks):
            if isinstance(mark, PredictBox):
                self.check(mark, start, seen)
                start = mark
            elif start is None:
                self.complain(mark, "predict-end: there is no predict-start before it")
            else:
                self.enclose(start, mark)
                start = None
        if start is not None:
            self.complain(start, f"predict-start {start['prediction']}: its predict-end is missing")
        for mark in list(self.document.findall(PredictEnd)):
            mark.parent.remove(mark)

    def complain(self, mark: nodes.Node, sentence: str) -> None:
        """An error of the build, with its place."""
        LOGGER.error("%s", sentence, location=mark)

    def check(self, box: PredictBox, before: PredictBox | None, seen: dict) -> None:
        """A box stands at the top level, after the end of the one before, with its own name."""
        name = box["prediction"]
        if before is not None:
            other = before["prediction"]
            self.complain(box, f"predict-start {name}: predict-end of {other} must come before")
        if name in seen:
            self.complain(
                box,
                f"predict-start {name}: this page has the name already in line {seen[name].line}; "
                "answers are kept by name, so take another",
            )
        seen.setdefault(name, box)
        if not isinstance(box.parent, (nodes.section, nodes.document)):
            self.complain(
                box,
                f"predict-start {name}: it stands inside a box, list or cell; "
                "put it at the top level of the section",
            )

    def enclose(self, box: PredictBox, end: PredictEnd) -> None:
        """Move the siblings between the two marks into an element of their own."""
        name, parent = box["prediction"], box.parent
        if end.parent is not parent:
            self.complain(
                end,
                f"predict-end of {name}: a heading or a box stands between it and its "
                f"predict-start in line {box.line}; both belong to one section, at its top level",
            )
            return
        first = parent.index(box) + 1
        hidden = parent.children[first : parent.index(end)]
        if not hidden:
            self.complain(end, f"predict-end of {name}: there is nothing between start and end")
            return
        behind = element("div", classes="td-predict-behind", id=f"predict-{name}-behind")
        for node in hidden:
            parent.remove(node)
        behind += hidden
        parent.insert(first, behind)


# ---- Writing ----------------------------------------------------------------------------


def visit(self, node: PredictElement) -> None:
    """Open the element."""
    self.body.append(self.starttag(node, node["tag"], "", **node["html"]))


def depart(self, node: PredictElement) -> None:
    """Close the element."""
    self.body.append(f"</{node['tag']}>\n" if node["tag"] != "strong" else "</strong>")


def load(app, pagename, templatename, context, doctree) -> None:
    """Script and style sheet, on pages that have a prediction and on no other."""
    if doctree is not None and next(iter(doctree.findall(PredictBox)), None) is not None:
        app.add_js_file("predict.js")
        app.add_css_file("predict.css", priority=900)


def setup(app):
    """Entry point for Sphinx."""
    app.add_node(PredictElement, html=(visit, depart))
    app.add_node(PredictBox, html=(visit, depart))
    app.add_directive("predict-start", PredictStart)
    app.add_directive("predict-end", PredictStop)
    app.add_transform(Enclose)
    app.connect("html-page-context", load)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
