"""Serve every script of the book from its own _static folder: no request leaves the reader.

MathJax comes from the package sphinx-mathjax-offline, plotly.js from the wheel of plotly.
Thebe, source maps and other files that no page uses are left out. Buttons that lead to the
repository, to Binder and to Colab appear when `repository.url` in _config.yml is set.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

MATHJAX = [
    "tex-mml-chtml.js",
    "output/chtml/fonts",
    "input/tex/extensions",
    "a11y",
    "ui",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
]
UNUSED = ["**/*.map", "sphinx-thebe.*", "webpack-macros.html", "**/webpack-macros.html", "locales"]


def _folder_of(package: str) -> Path:
    return Path(next(iter(find_spec(package).submodule_search_locations)))


def _configure(app, config):
    config.mathjax_path = "mathjax/tex-mml-chtml.js"
    config.nb_ipywidgets_js = {}  # no widget in a rendered page, so none of its scripts
    options = config.html_theme_options
    has_address = bool(options.get("repository_url"))
    for button in ("use_repository_button", "use_issues_button"):
        options[button] = has_address
    if not has_address:
        for key in ("repository_url", "repository_branch", "path_to_docs", "launch_buttons"):
            options.pop(key, None)
    app.plotly_is_used = False


def _page(app, pagename, templatename, context, doctree):
    # sphinx-thebe adds an inline script to every page, though thebe is off
    app.builder._js_files[:] = [
        script
        for script in app.builder._js_files
        if "THEBE_JS_URL" not in (script.attributes.get("body") or "")
        and "sphinx-thebe" not in (script.filename or "")
    ]
    app.builder._css_files[:] = [
        sheet for sheet in app.builder._css_files if "sphinx-thebe" not in (sheet.filename or "")
    ]
    if "plotly-graph-div" in (context.get("body") or ""):  # 4.8 MB, only where used
        app.plotly_is_used = True
        app.add_js_file("plotly/plotly.min.js", priority=100)


def _buttons(app, pagename, templatename, context, doctree):
    # the launch buttons of a chapter open its notebook; where there is none, they go
    if not pagename.startswith("book/"):
        return
    name = pagename.split("/", 1)[1]
    exists = (Path(app.srcdir) / "notebooks" / f"{name}.ipynb").exists()

    def mend(buttons):
        for button in list(buttons):
            url = button.get("url") or ""
            if "buttons" in button:
                mend(button["buttons"])
            elif "colab" in url or "urlpath=" in url:
                if exists:
                    button["url"] = url.replace(f"book/{name}.md", f"notebooks/{name}.ipynb")
                else:
                    buttons.remove(button)

    mend(context.get("header_buttons") or [])


def _front_door(app, exception):
    # index.html leads to the cover; Jupyter Book's own has no title, language or icon
    if exception is not None or app.builder.format != "html":
        return
    cover = f"{app.config.root_doc}.html"
    icon = f"_static/{Path(app.config.html_favicon or 'favicon.svg').name}"
    page = f"""<!DOCTYPE html>
<html lang="{app.config.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={cover}">
<title>{app.config.html_title}</title>
<link rel="icon" href="{icon}">
</head>
<body><p><a href="{cover}">{app.config.html_title}</a></p></body>
</html>
"""
    path = Path(app.outdir) / "index.html"
    path.write_text(page, encoding="utf-8", newline="\n")


def _copy(app, exception):
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    mathjax = _folder_of("sphinx-mathjax-offline") / "static" / "mathjax"
    for part in MATHJAX:
        source, target = mathjax / part, static / "mathjax" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    if app.plotly_is_used:
        (static / "plotly").mkdir(exist_ok=True)
        shutil.copy2(_folder_of("plotly") / "package_data" / "plotly.min.js", static / "plotly")
    for pattern in UNUSED:
        for path in list(static.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def setup(app):
    """Entry point for Sphinx."""
    app.connect("config-inited", _configure, priority=900)
    app.connect("html-page-context", _page, priority=900)
    app.connect("html-page-context", _buttons, priority=900)
    app.connect("build-finished", _front_door, priority=100)
    app.connect("build-finished", _copy, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
