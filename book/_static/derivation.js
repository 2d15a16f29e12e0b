/* Derivations line by line. Without this file every line stands there, gaps included. */
(() => {
  "use strict";

  const make = (tag, className, text = "") => {
    const node = document.createElement(tag);
    node.className = className;
    node.textContent = text;
    return node;
  };

  const button = (text, act) => {
    const node = make("button", "td-press", text);
    node.type = "button";
    node.addEventListener("click", act);
    return node;
  };

  /* a button that cannot be pressed keeps the focus, so that the keyboard does not lose its place */
  const able = (node, yes) => node.setAttribute("aria-disabled", String(!yes));

  function steps(box) {
    const list = box.querySelector(".td-derivation-lines");
    const lines = [...list.children];
    if (lines.length < 2) return;
    let at = lines.length; // lines that are seen
    let stepping = false;

    const begin = button("step through", () => { turn(true); next.focus({ preventScroll: true }); });
    const next = button("next line", () => go(at + 1));
    const back = button("back", () => go(at - 1));
    const all = button("all", () => { turn(false); begin.focus(); });
    const place = make("span", "td-place");
    const bar = make("div", "td-derivation-bar");
    bar.append(begin, next, back, all, place);
    list.before(bar);

    function go(to) {
      const wanted = Math.min(Math.max(to, 1), lines.length);
      const forward = wanted > at;
      at = wanted;
      lines.forEach((line, k) => {
        line.toggleAttribute("aria-live", false);
        if (forward && k === at - 1) line.setAttribute("aria-live", "polite");
      });
      /* a change is told only if the line was live before it */
      requestAnimationFrame(() => {
        lines.forEach((line, k) => {
          line.classList.toggle("td-unseen", k >= at);
          line.classList.toggle("td-now", stepping && k === at - 1);
        });
        if (forward && at > 1) lines[at - 1].scrollIntoView({ block: "nearest" });
      });
      place.textContent = `line ${at} of ${lines.length}`;
      able(next, at < lines.length);
      able(back, at > 1);
    }

    function turn(on) {
      stepping = on;
      begin.hidden = on;
      for (const node of [next, back, all, place]) node.hidden = !on;
      if (on) box.tabIndex = 0; else box.removeAttribute("tabindex");
      at = lines.length;
      go(on ? 1 : lines.length);
    }

    box.addEventListener("keydown", (event) => {
      const plain = !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey);
      const ours = event.target === box || bar.contains(event.target);
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!stepping || !plain || !ours || !by) return;
      if (at + by < 1 || at + by > lines.length) return; // at an end the arrows scroll again
      event.preventDefault();
      go(at + by);
    });

    turn(box.dataset.show === "steps");
  }

  function gaps(box, count) {
    for (const line of box.querySelectorAll(".td-gap")) {
      const formula = line.querySelector(".td-formula");
      const math = formula.firstElementChild;
      const name = `line ${line.dataset.line}`;
      math.id = `td-gap-${count}-${line.dataset.line}`;
      const press = button("", () => open(math.classList.contains("td-unseen")));
      press.setAttribute("aria-controls", math.id);
      const open = (yes) => {
        math.classList.toggle("td-unseen", !yes);
        press.setAttribute("aria-expanded", String(yes));
        press.textContent = `${yes ? "hide" : "show"} ${name}`;
      };
      formula.append(press);
      open(false);
    }
  }

  /* where the stylesheet cannot open a closed box for paper (::details-content), this does */
  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll(".td-derivation-fold:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened.splice(0)) fold.open = false;
  });

  document.querySelectorAll(".td-derivation").forEach((box, count) => {
    if (box.dataset.show === "gaps") gaps(box, count);
    else steps(box);
  });
})();
