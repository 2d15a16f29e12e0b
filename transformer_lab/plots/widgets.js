/* What the small interactive figures share. Plain ES2019, no library, no network. */
(() => {
  'use strict';
  if (window.tdWidgets) return;
  let count = 0;

  /* An element with attributes and children; strings become text, never HTML. */
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    Object.entries(attributes || {}).forEach(([name, value]) => {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    });
    node.append(...children);
    return node;
  }

  const sum = (row) => row.reduce((a, b) => a + b, 0);
  const argmax = (row) => row.indexOf(Math.max(...row));

  /* softmax(x / tau): the largest is subtracted first, so no power overflows. */
  function softmax(x, tau = 1) {
    const top = Math.max(...x);
    const powers = x.map((value) => Math.exp((value - top) / tau));
    const total = sum(powers);
    return powers.map((power) => power / total);
  }

  /* ---- numbers as widgets.py prints them ---- */
  function fixed(x, places) {
    const text = x.toFixed(places);
    return Number(text) === 0 ? text.replace('-', '') : text.replace('-', '−');
  }
  function weightText(a) {
    if (a > 0 && a < 0.0005) return '<0.001';
    return a >= 0.9995 && a < 1 ? '>0.999' : a.toFixed(3);
  }
  function small(x) {
    if (x === 0) return '0';
    if (x >= 0.001) return x.toPrecision(3);
    const [digits, power] = x.toExponential(1).split('e');
    const raised = [...power].map((c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(c)])).join('');
    return `${digits} × 10${raised}`;
  }
  const tauText = (tau) => (tau >= 1000 || Number.isInteger(tau)
    ? String(Math.round(tau)) : String(Number(tau.toPrecision(3))));

  /* The text with every d_k set as a symbol with its index. */
  function symbols(text) {
    const parts = text.split('d_k');
    return parts.flatMap((part, i) => (i === 0 ? [part]
      : [el('i', {}, 'd'), el('sub', {}, 'k'), part]));
  }

  /* A native slider with a label and a value beside it; onMove gets whole numbers of its steps. */
  function slider(id, name, low, high, onMove) {
    const output = el('output', { class: 'tdw-value', for: id });
    const input = el('input', { id, type: 'range', min: low, max: high, step: 1, autocomplete: 'off' });
    const label = el('label', { for: id, class: 'tdw-name' }, ...symbols(name));
    input.addEventListener('input', () => onMove(Number(input.value)));
    const track = el('div', { class: 'tdw-track' }, input);
    const node = el('div', { class: 'tdw-slider' }, el('div', { class: 'tdw-line' }, label, output), track);
    /* text for the eye, words for a screen reader */
    const show = (value, text, words) => {
      input.value = value;
      output.replaceChildren(...symbols(text));
      input.setAttribute('aria-valuetext', words || text);
    };
    return { node, input, track, label, show };
  }

  /* A place that a screen reader reads out, when nothing has moved for a moment. */
  function announcer() {
    const node = el('p', { class: 'tdw-sr', 'aria-live': 'polite' });
    let waiting;
    const say = (text) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { node.textContent = text; }, 700);
    };
    return { node, say, cancel: () => clearTimeout(waiting) };
  }

  /* Brings every figure of a kind to life, once; one that fails keeps its static part. */
  function start(kind, build) {
    document.querySelectorAll(`figure.td-${kind}:not([data-begun])`).forEach((figure) => {
      figure.dataset.begun = 'true';
      count += 1;
      try {
        const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
        const app = el('div', { class: 'tdw-app' });
        build(app, data, `td${kind}${count}`, figure);
        figure.querySelector('.tdw-static').after(app);
        /* A key pressed here is meant for the figure: in JupyterLab "d d" would delete the cell. */
        app.addEventListener('keydown', (event) => {
          if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) event.stopPropagation();
        });
        figure.dataset.ready = 'true';
      } catch (error) {
        console.error('This figure stays as it is printed:', error);
      }
    });
  }

  window.tdWidgets = { el, sum, argmax, softmax, fixed, weightText, small, tauText, symbols, slider, announcer, start };
})();
