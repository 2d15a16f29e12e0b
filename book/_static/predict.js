/* Predictions: predict.py writes the question, its choices and the folded answer; this makes a form
   of them and hides what stands between predict-start and predict-end until the reader has committed
   to an answer, or asks to see it without. Loaded in the head of pages that have a prediction. */
(() => {
  'use strict';
  const root = document.documentElement;
  root.classList.add('td-predict-js');
  const FINDABLE = 'onbeforematch' in root; // then a search in the page can open what is hidden
  const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const openers = new Map(); // what is hidden, to what shows it

  /* An element with attributes and children; strings become text, never HTML. */
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.append(...children);
    return node;
  }

  /* What the browser keeps; nothing, where it keeps nothing. */
  function read(key, version) {
    try {
      const kept = JSON.parse(localStorage.getItem(key));
      return kept && kept.version === version ? kept : null; // another question, another answer
    } catch {
      return null;
    }
  }
  function write(key, state) {
    try {
      if (state) localStorage.setItem(key, JSON.stringify(state));
      else localStorage.removeItem(key);
    } catch { /* then the answer lasts as long as the page is open */ }
  }

  /* 0.5, .5, 0,5, 1e-3, 1/3, 1,234,567 as a number; else a sentence. */
  function numberIn(text, unit) {
    const help = 'Write one number, such as 0.5, 1e-3 or 1/3.';
    let bare = text.trim();
    if (unit && bare.endsWith(unit)) bare = bare.slice(0, -unit.length);
    bare = bare.replace(/\s/g, '').replace(/\u2212/g, '-');
    if (/^[+-]?[1-9]\d{0,2},\d{3}$/.test(bare)) {
      return `Is ${bare} ${bare.replace(',', '')} or ${bare.replace(',', '.')}? Write it without a comma.`;
    }
    if (/^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(bare)) bare = bare.replace(/,/g, '');
    const parts = bare.split('/').map((part) => part.replace(',', '.'));
    if (parts.length > 2 || !parts.every((part) => PLAIN.test(part))) return help;
    const value = parts.length === 2 ? Number(parts[0]) / Number(parts[1]) : Number(parts[0]);
    return Number.isFinite(value) ? value : help;
  }
  const short = (x) => String(Number(x.toPrecision(3)));

  /* Formulas that MathJax has not set yet must not be copied while it works. */
  const whenSet = (action) => {
    const promise = window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    if (promise) promise.then(action, action);
    else action();
  };

  function redraw(behind) {
    window.dispatchEvent(new Event('resize'));
    if (!window.Plotly) return;
    behind.querySelectorAll('.js-plotly-plot').forEach((plot) => {
      Promise.resolve(window.Plotly.Plots.resize(plot)).catch(() => {});
    });
  }

  /* The fields of a form, what they hold, and how they are locked. */
  function fieldsOf(box, kind, unit) {
    const list = box.querySelector('.td-predict-choices');
    const asked = `${box.id}-question`;
    if (kind === 'choice') {
      const field = el('fieldset', { 'aria-describedby': `${asked} ${box.id}-problem` }, el('legend', {}, 'Your answer'));
      const rows = [...list.children].map((item, i) => {
        const radio = el('input', { type: 'radio', name: box.id, value: i });
        if (item.dataset.name) radio.setAttribute('aria-label', item.dataset.name); // TeX can be read out
        const words = el('span', { class: 'td-predict-words' });
        words.append(...item.childNodes);
        const tag = el('span', { class: 'td-predict-tag' });
        field.append(el('label', {}, radio, words, tag));
        return { radio, words, tag };
      });
      list.replaceWith(field);
      return {
        field,
        first: rows[0].radio,
        value: () => rows.findIndex((row) => row.radio.checked),
        fill: (said) => rows.forEach((row, i) => { row.radio.checked = i === said; }),
        words: (said) => {
          const words = el('span', { class: 'td-predict-words' });
          whenSet(() => words.replaceChildren(...rows[said].words.cloneNode(true).childNodes));
          return words;
        },
        lock: (locked, said, right) => {
          rows.forEach((row, i) => {
            row.radio.disabled = locked;
            const tags = [i === said && 'your answer', i === right && 'the answer'].filter(Boolean);
            row.tag.textContent = locked ? tags.join(', ') : '';
          });
        },
        problem: (value) => (value < 0 ? 'Choose one of the answers first.' : ''),
      };
    }
    const number = kind === 'number';
    const input = number
      ? el('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', size: 8 })
      : el('textarea', { rows: 2 });
    const title = number ? 'Your answer' : 'Your answer, in a few words (only this browser keeps it)';
    input.setAttribute('aria-describedby', `${asked} ${box.id}-problem`);
    const field = el('div', { class: `td-predict-${kind}` },
      el('label', {}, el('span', {}, title), ' ', input, ...(number ? [` ${unit}`] : [])));
    box.querySelector('.td-predict-question').after(field);
    return {
      field,
      first: input,
      value: () => input.value.trim(),
      fill: (said) => { input.value = said === undefined ? '' : said; },
      words: (said) => el('span', { class: 'td-predict-words' },
        number && !said.endsWith(unit) ? `${said} ${unit}` : said),
      lock: (locked) => { field.hidden = locked; },
      problem: (value) => {
        const found = number ? numberIn(value, unit) : 0;
        if (number) input.setAttribute('aria-invalid', typeof found === 'string');
        return typeof found === 'string' ? found : '';
      },
    };
  }

  /* How far a number was off, in words. */
  function distance(box, said) {
    const { number, tolerance, unit } = box.dataset;
    const off = numberIn(said, unit) - Number(number);
    if (Math.abs(off) <= 1e-9 * Math.abs(number)) return 'so';
    if (Math.abs(off) <= Number(tolerance) * (1 + 1e-9)) return `: close enough (within ${short(Number(tolerance))})`;
    return `: yours is ${short(Math.abs(off))} too ${off > 0 ? 'high' : 'low'}`;
  }

  function setUp(box) {
    const behind = document.getElementById(`${box.id}-behind`);
    const { kind, page, version, unit = '' } = box.dataset;
    const key = `td-predict ${page}#${box.id}`;
    const answer = box.querySelector('.td-predict-answer');
    const right = box.querySelector('.td-predict-right');
    const why = box.querySelector('.td-predict-why');
    const homes = [right, why].filter(Boolean).map((node) => [node, node.parentNode, node.nextSibling]);
    const index = 'right' in box.dataset ? Number(box.dataset.right) : -1;

    const problem = el('p', { class: 'td-predict-problem', id: `${box.id}-problem`, role: 'alert' });
    const commit = el('button', { type: 'submit', class: 'td-predict-commit' },
      kind === 'text' ? 'I have committed' : 'Commit to this answer');
    const skip = el('button', { type: 'button', class: 'td-predict-link' }, 'Show without answering');
    const note = el('p', { class: 'td-predict-note' }, 'What comes next on the page stays hidden until then.');
    const ask = el('div', { class: 'td-predict-ask' }, problem, commit, ' ', skip, note);
    const verdict = el('div', { class: 'td-predict-verdict', tabindex: -1, hidden: '' });
    const again = el('button', { type: 'button', class: 'td-predict-link' });
    const status = el('span', { class: 'td-predict-status', role: 'status' });
    const form = el('form', { novalidate: '' });
    const fields = fieldsOf(box, kind, unit);
    fields.field.replaceWith(form);
    form.append(fields.field, ask, verdict, status);

    function sentence(said) {
      const p = el('p', {});
      if (said === undefined) {
        p.append('Shown without an answer');
        if (right) p.append(': it is ', right);
      } else if (said === '') {
        p.append('You have committed');
      } else {
        const strong = el('strong', {}, fields.words(said));
        p.append(kind === 'text' ? 'You wrote: ' : 'You said ', strong);
        const far = kind === 'number' ? distance(box, said) : '';
        if (far === 'so' || (right && said === index)) p.append(', and so it is');
        else if (right) p.append('; it is ', right, far);
        if (kind === 'text') return p;
      }
      p.append('.');
      return p;
    }

    /* state: null (asked), { said } (answered) or {} (shown). */
    function show(state) {
      const open = state === null;
      homes.forEach(([node, parent, next]) => parent.insertBefore(node, next));
      box.dataset.state = open ? 'open' : 'said' in state ? 'answered' : 'shown';
      ask.hidden = !open;
      verdict.hidden = open;
      problem.textContent = '';
      fields.fill(open ? undefined : state.said);
      fields.lock(!open, open ? -1 : state.said, index);
      if (behind) {
        behind.dataset.state = open ? 'hidden' : 'shown';
        behind.inert = open && !FINDABLE;
        if (open && FINDABLE) behind.setAttribute('hidden', 'until-found');
        else behind.removeAttribute('hidden');
      }
      if (open) return;
      again.textContent = 'said' in state ? 'Answer again' : 'Hide it and answer';
      verdict.replaceChildren(sentence(state.said), ...(why ? [why] : []), again);
      if (behind) redraw(behind);
    }

    function change(state, keep) {
      show(state);
      if (keep) write(key, state && { ...state, version });
      status.textContent = state ? 'What comes next is now shown.' : 'What comes next is hidden again.';
    }

    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const said = fields.value();
      problem.textContent = fields.problem(said);
      if (problem.textContent) {
        fields.first.focus();
        return;
      }
      change({ said }, true);
      verdict.focus();
    });
    skip.addEventListener('click', () => {
      change({}, true);
      verdict.focus();
    });
    again.addEventListener('click', () => {
      change(null, true);
      fields.first.focus();
    });
    if (behind) {
      const opener = () => {
        if (behind.dataset.state === 'hidden') change({}, false);
      };
      openers.set(behind, opener);
      behind.addEventListener('beforematch', opener);
    }
    show(read(key, version));
    if (answer) window.addEventListener('beforeprint', () => { answer.open = true; });
    if (answer) window.addEventListener('afterprint', () => { answer.open = false; });
  }

  /* Show what a link leads to, if it is hidden; the element, if it was. */
  function openFor(hash) {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(hash.slice(1)));
    } catch { /* not a name that an element can have */ }
    const behind = target && target.closest('.td-predict-behind[data-state="hidden"]');
    if (!behind) return null;
    openers.get(behind)();
    return target;
  }

  document.addEventListener('click', (event) => {
    const link = event.target.closest && event.target.closest('a[href*="#"]');
    if (link && link.pathname === location.pathname && link.host === location.host) openFor(link.hash);
  }, true);
  window.addEventListener('hashchange', () => {
    const target = openFor(location.hash);
    if (target) target.scrollIntoView();
  });
  /* The search marks its words when the page is there: if all hits are hidden, show them. */
  window.addEventListener('load', () => window.setTimeout(() => {
    const hits = [...document.querySelectorAll('article span.highlighted')]
      .map((hit) => hit.closest('.td-predict-behind[data-state="hidden"]'));
    if (hits.every(Boolean)) new Set(hits).forEach((behind) => openers.get(behind)());
  }, 100));

  document.addEventListener('DOMContentLoaded', () => {
    try {
      document.querySelectorAll('.td-predict[id]').forEach(setUp);
    } catch (error) {
      root.classList.remove('td-predict-js');
      document.querySelectorAll('.td-predict-behind').forEach((behind) => {
        behind.removeAttribute('hidden');
        behind.inert = false;
      });
      throw error;
    }
    const target = openFor(location.hash);
    if (target) window.addEventListener('load', () => whenSet(() => target.scrollIntoView()));
  });
})();
