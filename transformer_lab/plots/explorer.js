/* The attention explorer. Plain ES2019, no library, no network.
   It brings every figure.td-explorer on the page to life, once, however often it is on the page. */
(() => {
  'use strict';
  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const MEAN = 'mean';
  const two = (x) => x.toFixed(2);
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const argmax = (row) => row.indexOf(Math.max(...row));
  const sum = (row) => row.reduce((a, b) => a + b, 0);

  /* An element with attributes and children; strings become text, never HTML. */
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    Object.entries(attributes || {}).forEach(([name, value]) => {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    });
    node.append(...children);
    return node;
  }

  /* A word's weights as numbers: [layer][head][row][column]. */
  function decode(text, sizes, steps) {
    let at = 0;
    const read = (depth) => {
      if (depth === sizes.length) {
        at += 2;
        return (ALPHABET.indexOf(text[at - 2]) * 64 + ALPHABET.indexOf(text[at - 1])) / steps;
      }
      return Array.from({ length: sizes[depth] }, () => read(depth + 1));
    };
    return read(0);
  }

  /* The mean of some matrices of one shape. */
  const mean = (matrices) => matrices[0].map((row, t) => row.map(
    (_, s) => sum(matrices.map((m) => m[t][s])) / matrices.length));

  /* ---- colour: black or white numbers on a cell, whichever the eye reads better ---- */
  const rgbOf = (node) => (getComputedStyle(node).backgroundColor.match(/[\d.]+/g) || [255, 255, 255])
    .slice(0, 3).map(Number);
  /* Relative luminance (WCAG); below 0.179 white has more contrast than black, at least 4.5. */
  function isDark(rgb) {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045
      ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179;
  }

  /* ---- a list with type-ahead (the ARIA combobox pattern) ---- */
  function combobox(id, cases, onPick) {
    const input = el('input', {
      id, type: 'text', role: 'combobox', 'aria-expanded': 'false', 'aria-controls': `${id}-list`,
      'aria-autocomplete': 'list', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false' });
    const list = el('div', { id: `${id}-list`, role: 'listbox', class: 'tdx-list', 'aria-label': 'Words' });
    const count = el('span', { class: 'tdx-sr', role: 'status' });
    const none = el('div', { class: 'tdx-none' }, 'No word in the list has these letters.');
    const popup = el('div', { class: 'tdx-popup', hidden: '' }, list, none);
    const options = cases.map((c, i) => el('div', {
      id: `${id}-${i}`, role: 'option', class: 'tdx-option', 'data-i': i, 'aria-selected': 'false' }, c.word));
    const groups = [...new Set(cases.map((c) => c.kind))].map((kind, k) => {
      const heading = el('div', { id: `${id}-kind${k}`, class: 'tdx-kind', role: 'presentation' }, kind);
      return el('div', { role: 'group', 'aria-labelledby': heading.id }, heading,
        ...options.filter((_, i) => cases[i].kind === kind));
    });
    list.append(...groups);
    let [chosen, active] = [0, null];
    const order = [...list.querySelectorAll('.tdx-option')];
    const shown = () => order.filter((option) => !option.hidden);
    const isOpen = () => !popup.hidden;
    function setActive(option) {
      if (active) active.classList.remove('tdx-active');
      active = option || null;
      input.setAttribute('aria-activedescendant', active ? active.id : '');
      if (!active) return;
      active.classList.add('tdx-active');
      list.scrollTop = clamp(list.scrollTop, active.offsetTop + active.offsetHeight - list.clientHeight, active.offsetTop - 30);
    }
    function filter(text) {
      const query = text.trim().toLowerCase();
      const words = cases.map((c) => c.word.toLowerCase());
      options.forEach((option, i) => { option.hidden = !words[i].includes(query); });
      groups.forEach((group) => { group.hidden = !group.querySelector('.tdx-option:not([hidden])'); });
      const left = shown();
      none.hidden = left.length > 0;
      list.hidden = left.length === 0;
      count.textContent = `${left.length} of ${cases.length} words`;
      return left.find((option) => query && words[option.dataset.i].startsWith(query)) || left[0];
    }
    function open(text) {
      popup.hidden = false;
      input.setAttribute('aria-expanded', 'true');
      const best = filter(text);
      setActive(text ? best : options[chosen]);
    }
    function close() {
      popup.hidden = true;
      input.setAttribute('aria-expanded', 'false');
      input.value = cases[chosen].word;
      count.textContent = '';
      setActive(null);
    }
    function pick(i) {
      options[chosen].setAttribute('aria-selected', 'false');
      chosen = i;
      options[chosen].setAttribute('aria-selected', 'true');
      close();
      onPick(i);
    }
    function move(by) {
      const left = shown();
      if (!isOpen()) open('');
      else if (left.length) setActive(left[(left.indexOf(active) + by + left.length) % left.length]);
    }
    input.addEventListener('input', () => open(input.value));
    input.addEventListener('click', () => { if (!isOpen()) { input.select(); open(''); } });
    input.addEventListener('blur', close);
    input.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown') move(1);
      else if (event.key === 'ArrowUp') move(-1);
      else if (event.key === 'Enter' && isOpen()) { if (active) pick(Number(active.dataset.i)); }
      else if (event.key === 'Escape' && isOpen()) { close(); input.select(); }
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    popup.addEventListener('mousedown', (event) => event.preventDefault());
    list.addEventListener('click', (event) => {
      const option = event.target.closest('.tdx-option');
      if (option) { pick(Number(option.dataset.i)); input.select(); }
    });
    const button = (sign, label, by) => {
      const node = el('button', { type: 'button', class: 'tdx-step', 'aria-label': label }, sign);
      const next = () => order[(order.indexOf(options[chosen]) + by + order.length) % order.length];
      node.addEventListener('click', () => pick(Number(next().dataset.i)));
      return node;
    };
    const node = el('div', { class: 'tdx-field' }, el('label', { for: id, class: 'tdx-name' }, 'Word'),
      el('div', { class: 'tdx-combo' }, button('‹', 'previous word', -1), input,
        button('›', 'next word', 1), popup, count));
    return { node, pick };
  }

  /* ---- a row of radio buttons: 1 … n and the mean; nothing to choose, nothing shown ---- */
  function segments(id, name, count, first, onPick) {
    const row = el('div', { class: 'tdx-segments' });
    const field = el('fieldset', { class: 'tdx-field' }, el('legend', { class: 'tdx-name' }, name), row);
    const values = [...Array.from({ length: count }, (_, i) => i + 1), MEAN];
    values.forEach((value) => {
      const radio = el('input', { type: 'radio', name: id, id: `${id}-${value}`, value });
      radio.checked = value === first;
      radio.addEventListener('change', () => onPick(value));
      const more = el('span', { class: 'tdx-sr' }, ` of the ${name.toLowerCase()}s`);
      row.append(radio, el('label', { for: radio.id }, String(value), value === MEAN ? more : ''));
    });
    return field;
  }

  function alive(figure) {
    figure.dataset.ready = 'true';
    window.tdExplorerCount = (window.tdExplorerCount || 0) + 1;
    const id = `tdx${window.tdExplorerCount}`;
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const { cases, layers, heads } = data;
    const state = { t: 0, s: 0,
      layer: layers === 1 ? 1 : data.layer || MEAN, head: heads === 1 ? 1 : data.head || MEAN };
    let now; /* the case, its weights [l][h][t][s], the matrix A in view, the grid's cells [t][s] */
    const live = el('p', { class: 'tdx-sr', 'aria-live': 'polite' });
    const answers = el('div', { class: 'tdx-answers' });
    const beam = el('div', { class: 'tdx-beam' });
    const strip = el('div', { class: 'tdx-strip', role: 'img' });
    const grid = el('div', { class: 'tdx-grid', role: 'grid' });
    const cellText = el('p', { class: 'tdx-cell-text' });
    const rowText = el('p', { class: 'tdx-row-text' });
    const silent = el('p', { class: 'tdx-silent' });
    const swatch = el('span', { class: 'tdx-swatch' });
    const table = el('div', { class: 'tdx-scroll', tabindex: '0', role: 'region', 'aria-label': 'The map as a table' });
    const sentences = el('ol', { class: 'tdx-sentences' });

    const shortView = () => [
      layers > 1 && (state.layer === MEAN ? `mean of ${layers} layers` : `layer ${state.layer}`),
      heads > 1 && (state.head === MEAN ? `mean of ${heads} heads` : `head ${state.head}`),
    ].filter(Boolean).join(', ') || 'the only layer and head';

    /* ---- sentences ---- */
    function looksAt(t) {
      const { A, c } = now;
      const order = A[t].map((w, s) => [w, s]).sort((a, b) => b[0] - a[0]);
      const named = order.filter(([w], k) => k === 0 || (k < 4 && w >= 0.05));
      const rest = order.slice(named.length);
      const text = named.map(([w, s]) => `${c.letters[s]} ${two(w)}`).join(', ');
      const tail = rest.length === 0 ? ''
        : rest.length === 1 ? `, ${c.letters[rest[0][1]]} ${two(rest[0][0])}`
          : `; the other ${rest.length} together ${two(sum(rest.map(([w]) => w)))}`;
      return `${c.phones[t]} looks at: ${text}${tail}.`;
    }
    const whichRow = (t) => `Row ${t + 1} of A (${shortView()}): query ${now.c.phones[t]}, `
      + `its ${now.c.letters.length} weights sum to ${two(sum(now.A[t]))}.`;
    function nameLetter(s) {
      const { letters } = now.c;
      return letters.filter((x) => x === letters[s]).length > 1
        ? `${letters[s]} (letter ${s + 1})` : letters[s];
    }

    /* ---- what the model and the dictionary say ---- */
    const mark = (right) => (right === null ? ''
      : el('span', { class: `tdx-mark ${right ? 'tdx-right' : 'tdx-wrong'}` }, el('span', {}, right ? 'right' : 'wrong')));
    const bar = (p) => {
      const node = el('span', { class: 'tdx-p', 'aria-hidden': 'true' }, el('span'));
      node.firstChild.style.width = `${100 * p}%`;
      return node;
    };
    const chance = (p) => (p > 0 && p < 0.005 ? '< 0.01' : two(p));
    function showAnswers(c) {
      const name = (text) => el('p', { class: 'tdx-name' }, text);
      const said = (phones) => el('span', { class: 'tdx-said' }, phones.join(' ') || '(nothing)');
      const whole = c.p.reduce((a, b) => a * b, 1);
      answers.replaceChildren(
        name('The model says (greedy)'),
        el('p', {}, said(c.greedy), mark(c.right), el('span', { class: 'tdx-chance' }, `probability ${chance(whole)}`)),
        name('The dictionary says'),
        el('p', {}, ...(c.references.length ? c.references.map(said) : ['no entry'])));
      beam.hidden = c.beam.length === 0;
      beam.replaceChildren(name(`Beam search, best ${c.beam.length}, with probability`),
        el('ol', {}, ...c.beam.map(([phones, p, right]) => el('li', {},
          el('span', { class: 'tdx-phones' }, phones.join(' ') || '(nothing)'),
          bar(p), el('span', { class: 'tdx-number' }, chance(p)), right ? mark(true) : ''))));
    }

    /* ---- the map: built for a word, painted for a layer and a head ---- */
    function buildMap(c) {
      [strip, grid].forEach((node) => node.style.setProperty('--n', c.letters.length));
      strip.replaceChildren(el('span', {}), ...c.letters.map(() => el('span', { class: 'tdx-column' },
        el('span', { class: 'tdx-number' }), el('span', { class: 'tdx-bar' }))));
      const header = el('div', { role: 'row', class: 'tdx-row' },
        el('span', { role: 'columnheader', class: 'tdx-corner' }, 'query (row)'),
        ...c.letters.map((letter, s) => el('span', {
          role: 'columnheader', class: s < c.nLetters ? 'tdx-letter' : 'tdx-letter tdx-end' }, el('b', {}, letter))),
        el('span', { class: 'tdx-ptitle', role: 'presentation' }, 'probability'));
      now.cells = c.phones.map((_, t) => c.letters.map((__, s) => el('span', {
        role: 'gridcell', class: 'tdx-cell', tabindex: '-1', 'data-t': t, 'data-s': s })));
      const rows = c.phones.map((phone, t) => el('div', { role: 'row', class: 'tdx-row' },
        el('span', { role: 'rowheader', 'data-t': t, class: t < c.greedy.length ? 'tdx-phone' : 'tdx-phone tdx-end',
          'aria-label': `${phone}, probability ${chance(c.p[t])}` }, phone),
        ...now.cells[t],
        el('span', { class: 'tdx-prob', 'data-t': t, role: 'presentation', 'aria-hidden': 'true' }, bar(c.p[t]),
          el('span', { class: 'tdx-number' }, chance(c.p[t])))));
      grid.replaceChildren(header, ...rows);
    }
    function paint() {
      const { c, weights, cells } = now;
      const chosenLayers = state.layer === MEAN ? weights : [weights[state.layer - 1]];
      const A = mean(chosenLayers.flatMap((layer) => (state.head === MEAN ? layer : [layer[state.head - 1]])));
      now.A = A;
      const [none, full] = [rgbOf(swatch.parentNode), rgbOf(swatch)]; /* the ends of the scale */
      A.forEach((row, t) => row.forEach((w, s) => {
        const cell = cells[t][s];
        cell.style.setProperty('--w', w.toFixed(4));
        cell.textContent = two(w);
        cell.classList.toggle('tdx-faint', w < 0.005);
        cell.classList.toggle('tdx-dark', isDark(none.map((c, i) => c + w * (full[i] - c))));
        cell.setAttribute('aria-label', `query ${c.phones[t]}, key ${c.letters[s]}: ${two(w)}`);
      }));
      /* Letters: how much attention the phones gave them; the end row is no phone. */
      const phones = A.slice(0, c.greedy.length);
      const received = c.letters.map((_, s) => sum(phones.map((row) => row[s])));
      const first = new Set(phones.map(argmax));
      const missed = c.letters.map((_, s) => s).filter((s) => s < c.nLetters && !first.has(s));
      const top = Math.max(2, Math.ceil(Math.max(...received)));
      strip.style.setProperty('--one', `${100 / top}%`);
      strip.querySelectorAll('.tdx-column').forEach((column, s) => {
        column.style.setProperty('--h', `${(100 * received[s] / top).toFixed(2)}%`);
        column.firstChild.textContent = two(received[s]);
        grid.querySelectorAll('.tdx-letter')[s].classList.toggle('tdx-missed', missed.includes(s));
      });
      const list = c.letters.map((letter, s) => `${letter} ${two(received[s])}`).join(', ');
      strip.setAttribute('aria-label', `Attention received, summed over phonemes: ${list}.`);
      grid.setAttribute('aria-label', `Attention weights of ${c.word}, ${shortView()}: query (row), key (column)`);
      const view = shortView().replace(/^./, (letter) => letter.toUpperCase());
      silent.replaceChildren(el('b', {}, missed.length
        ? `${view}: no phoneme looks first at ${missed.map(nameLetter).join(', ')}. `
        : `${view}: each letter has a phoneme that looks at it first. `),
      'This is where the model looks; it is no proof that a letter is silent.');
      showTable(received);
      select(state.t, state.s);
    }
    function showTable(received) {
      const { c, A } = now;
      const th = (scope, text) => el('th', { scope }, text);
      const line = (name, row) => el('tr', {}, th('row', name), ...row.map((w) => el('td', {}, two(w))));
      table.replaceChildren(el('table', { class: 'tdx-table' },
        el('caption', {}, `${c.word}: attention weights, ${shortView()}`),
        el('thead', {}, el('tr', {}, th('col', 'query (row) \\ key (column)'), ...c.letters.map((x) => th('col', x)))),
        el('tbody', {}, ...A.map((row, t) => line(c.phones[t], row))),
        el('tfoot', {}, line('sum over phonemes', received))));
      sentences.replaceChildren(...A.map((_, t) => el('li', {}, looksAt(t))));
    }
    /* The readout for a cell; the selected cell is the one that Tab reaches. */
    function read(t, s) {
      cellText.replaceChildren(`query ${now.c.phones[t]}, key ${now.c.letters[s]}: `, el('b', {}, two(now.A[t][s])));
      rowText.replaceChildren(el('b', {}, looksAt(t)), ' ', whichRow(t));
      grid.querySelectorAll('.tdx-row').forEach((row, k) => row.classList.toggle('tdx-here', k === t + 1));
      grid.querySelectorAll('.tdx-letter').forEach((letter, k) => letter.classList.toggle('tdx-here', k === s));
    }
    function select(t, s) {
      now.cells[Math.min(state.t, now.cells.length - 1)].forEach((cell) => cell.setAttribute('tabindex', '-1'));
      [state.t, state.s] = [t, s];
      now.cells.forEach((row, i) => row.forEach((cell, j) => cell.classList.toggle('tdx-selected', i === t && j === s)));
      now.cells[t][s].setAttribute('tabindex', '0');
      read(t, s);
    }
    function showWord(i) {
      const c = cases[i];
      now = { c, weights: decode(c.weights, [layers, heads, c.phones.length, c.letters.length], data.steps) };
      showAnswers(c);
      buildMap(c);
      [state.t, state.s] = [0, 0];
      paint();
      select(0, argmax(now.A[0]));
      const verdict = c.right === null ? 'in no dictionary' : c.right ? 'right' : 'wrong';
      live.textContent = `${c.word}: the model says ${c.greedy.join(' ')}, ${verdict}.`;
    }
    function showView(key, value) {
      state[key] = value;
      paint();
      live.textContent = `${shortView()}. ${looksAt(state.t)}`;
    }

    grid.addEventListener('keydown', (event) => {
      const [T, S] = [now.c.phones.length, now.c.letters.length];
      const far = event.ctrlKey || event.metaKey;
      const to = {
        ArrowUp: [state.t - 1, state.s], ArrowDown: [state.t + 1, state.s],
        ArrowLeft: [state.t, state.s - 1], ArrowRight: [state.t, state.s + 1],
        Home: [far ? 0 : state.t, 0], End: [far ? T - 1 : state.t, S - 1],
      }[event.key];
      if (!to || event.altKey) return;
      event.preventDefault();
      const before = state.t;
      now.cells[clamp(to[0], 0, T - 1)][clamp(to[1], 0, S - 1)].focus();
      if (state.t !== before) live.textContent = looksAt(state.t);
    });
    /* A key pressed here is meant for the figure: in JupyterLab "d d" would delete the cell. */
    figure.addEventListener('keydown', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) event.stopPropagation();
    });
    const place = (event) => event.target.closest('[data-t]');
    grid.addEventListener('focusin', (event) => {
      const cell = place(event);
      if (cell) select(Number(cell.dataset.t), Number(cell.dataset.s));
    });
    grid.addEventListener('click', (event) => {
      const at = place(event);
      if (at && !at.dataset.s) now.cells[at.dataset.t][argmax(now.A[at.dataset.t])].focus();
    });
    grid.addEventListener('mouseover', (event) => {
      const at = place(event);
      if (at) read(Number(at.dataset.t), at.dataset.s ? Number(at.dataset.s) : argmax(now.A[at.dataset.t]));
    });
    grid.addEventListener('mouseleave', () => read(state.t, state.s));

    const combo = combobox(`${id}-word`, cases, showWord);
    const controls = el('div', { class: 'tdx-controls' }, combo.node);
    if (layers > 1) controls.append(segments(`${id}-layer`, 'Layer', layers, state.layer, (v) => showView('layer', v)));
    if (heads > 1) controls.append(segments(`${id}-head`, 'Head', heads, state.head, (v) => showView('head', v)));
    const map = el('div', { class: 'tdx-map' },
      el('p', { class: 'tdx-axis' }, 'attention received, summed over phonemes (the line marks 1)'),
      el('div', { class: 'tdx-scroll' }, el('div', { class: 'tdx-sheet' }, strip,
        el('p', { class: 'tdx-axis tdx-keys' }, 'key (column)'), grid)),
      el('div', { class: 'tdx-legend' }, 'weight', el('span', { class: 'tdx-number' }, '0'),
        el('span', { class: 'tdx-scale' }, swatch), el('span', { class: 'tdx-number' }, '1'),
        el('span', { class: 'tdx-hint' }, '↔ map scrolls')),
      cellText, rowText, silent);
    const app = el('div', { class: 'tdx-app' }, controls, answers, el('div', { class: 'tdx-body' }, map, beam),
      el('details', { class: 'tdx-text' }, el('summary', {}, 'The map as a table and in sentences'), table, sentences), live);
    figure.querySelector('.tdx-static').replaceWith(app);
    combo.pick(data.start);
    live.textContent = '';

    /* Numbers are printed where a cell has room; colours follow the page's theme. */
    new ResizeObserver(() => {
      const scroll = map.querySelector('.tdx-scroll');
      figure.classList.toggle('tdx-scrolls', scroll.scrollWidth > scroll.clientWidth + 1);
      figure.classList.toggle('tdx-roomy', now.cells[0][0].getBoundingClientRect().width >= 29);
    }).observe(grid);
    const theme = new MutationObserver(() => { if (figure.isConnected) paint(); else theme.disconnect(); });
    [document.documentElement, document.body].forEach((node) => theme.observe(node,
      { attributes: true, attributeFilter: ['data-theme', 'data-jp-theme-light', 'data-vscode-theme-kind'] }));
  }

  document.querySelectorAll('figure.td-explorer:not([data-ready])').forEach(alive);
})();
