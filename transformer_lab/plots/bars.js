/* One query over its keys at a temperature of the reader's choice. Needs widgets.js. */
(() => {
  'use strict';
  const { el, sum, argmax, softmax, fixed, weightText, small, tauText, symbols, slider, announcer, start } = window.tdWidgets;
  const TICKS = 400;

  /* Peak, entropy in nats, and what the Jacobian J = diag(a) − a aᵀ lets through. */
  function readings(a) {
    const rest = a.map((_, i) => sum(a.filter((__, j) => j !== i))); /* 1 − a_i, without cancellation */
    const diagonal = a.map((w, i) => w * rest[i]);
    const squares = a.map((w, i) => diagonal[i] ** 2 + sum(a.map((v, j) => (i === j ? 0 : (w * v) ** 2))));
    const entropy = Math.abs(sum(a.map((w) => (w > 0 ? -w * Math.log(w) : 0))));
    return {
      largest: Math.max(...a), entropy, share: a.length > 1 ? entropy / Math.log(a.length) : null,
      jacobianMax: Math.max(...diagonal), jacobianNorm: Math.sqrt(sum(squares)),
    };
  }

  function build(app, data, id) {
    const state = { query: data.queries[data.start], tau: data.tau };
    let rows = [];
    const live = announcer();

    /* ---- the slider: a log scale from 1/reach to reach·d_k; a tick next to a stop is the stop ---- */
    const low = () => 1 / data.reach;
    const high = () => data.reach * state.query.dk;
    const tickOf = (tau) => Math.round(TICKS * Math.log(tau / low()) / Math.log(high() / low()));
    function tauOf(tick) {
      const stop = state.query.stops.find(([, tau]) => tickOf(tau) === tick);
      return stop ? stop[1] : low() * (high() / low()) ** (tick / TICKS);
    }
    const stopAt = (tau) => state.query.stops.find(([, stop]) => stop === tau);

    const range = slider(`${id}-tau`, 'temperature τ (log scale)', 0, TICKS, (tick) => setTau(tauOf(tick)));
    const marks = el('div', { class: 'tdb-marks', 'aria-hidden': 'true' });
    range.track.append(marks);
    const stops = el('div', { class: 'tdb-stops', role: 'group', 'aria-label': 'Marked temperatures' });
    const note = { 1: 'no scaling', '√d_k': 'the paper’s', d_k: 'the width', '1 = d_k': 'the only stop' };

    function showStops() {
      const { stops: all } = state.query;
      marks.replaceChildren(...all.map(([name, tau]) => {
        const mark = el('span', {}, ...symbols(name));
        mark.style.setProperty('--at', tickOf(tau) / TICKS);
        return mark;
      }));
      stops.replaceChildren(...all.map(([name, tau]) => {
        const text = name.startsWith('1') ? name : `${name} = ${tauText(tau)}`;
        const button = el('button', { type: 'button', 'data-tau': tau, 'aria-pressed': 'false' },
          el('span', {}, ...symbols(text)), el('small', {}, note[name]));
        button.addEventListener('click', () => setTau(tau));
        return button;
      }));
    }

    /* ---- the read-outs ---- */
    const tile = (...name) => {
      const [value, more] = [el('b', {}), el('span', { class: 'tdb-more' })];
      const node = el('div', { class: 'tdb-tile' }, el('span', { class: 'tdw-name' }, ...name), value, more);
      return { node, show: (number, text, extra) => {
        value.dataset.value = number;
        value.textContent = text;
        more.textContent = extra;
      } };
    };
    const J = () => el('i', {}, 'J');
    const tiles = {
      largest: tile('largest weight'), entropy: tile('entropy'),
      jacobianMax: tile('largest |', J(), el('sub', {}, 'ij'), '|'), jacobianNorm: tile('‖', J(), '‖, Frobenius norm'),
    };
    const nameOf = (i) => {
      const { keys } = state.query;
      return keys.filter((key) => key === keys[i]).length > 1 ? `${keys[i]} (key ${i + 1})` : keys[i];
    };

    /* ---- the bars: a table for a screen reader, a drawing for the eye ---- */
    const bars = el('div', { class: 'tdb-bars', role: 'table' });
    function buildBars() {
      const { name, keys } = state.query;
      const cell = (role, style, ...inside) => el('span', { role, class: style }, ...inside);
      const scale = cell('columnheader', 'tdb-scale', el('span', { class: 'tdw-sr' }, 'bar'),
        ...['0', '0.5', '1'].map((x) => el('span', { 'aria-hidden': 'true' }, x)));
      const head = el('div', { role: 'row', class: 'tdb-row tdb-head' }, cell('columnheader', 'tdb-key', 'key'),
        cell('columnheader', 'tdb-number', el('i', {}, 'q'), '·', el('i', {}, 'k'), '/τ'), scale,
        cell('columnheader', 'tdb-number', 'weight'));
      rows = keys.map((key) => {
        const [score, weight] = [cell('cell', 'tdb-number'), cell('cell', 'tdb-number')];
        const bar = el('span', { class: 'tdb-bar' });
        const node = el('div', { role: 'row', class: 'tdb-row' }, cell('rowheader', 'tdb-key', key), score,
          el('span', { role: 'cell', class: 'tdb-track' }, bar), weight);
        return { node, score, weight, bar };
      });
      bars.setAttribute('aria-label', `${name}: score and softmax weight of each key`);
      bars.style.setProperty('--uniform', 1 / keys.length);
      bars.classList.toggle('tdb-many', keys.length > 12);
      bars.replaceChildren(head, ...rows.map((row) => row.node));
    }

    function paint() {
      const { query, tau } = state;
      const a = softmax(query.raw, tau);
      const best = argmax(a);
      rows.forEach(({ node, score, weight, bar }, i) => {
        const s = query.raw[i] / tau;
        node.dataset.weight = a[i];
        node.dataset.score = s;
        node.classList.toggle('tdb-best', i === best && a.length > 1);
        score.textContent = fixed(s, 2);
        weight.textContent = weightText(a[i]);
        bar.style.setProperty('--w', a[i].toFixed(5));
      });
      const r = readings(a);
      const share = r.share === null ? 'one key: nothing to share' : `${(100 * r.share).toFixed(1)}\u00a0% of ln ${a.length}`;
      tiles.largest.show(r.largest, weightText(r.largest), nameOf(best));
      tiles.entropy.show(r.entropy, `${fixed(r.entropy, 3)} nats`, share);
      tiles.entropy.node.dataset.share = r.share;
      tiles.jacobianMax.show(r.jacobianMax, small(r.jacobianMax), 'never above 1/4');
      tiles.jacobianNorm.show(r.jacobianNorm, small(r.jacobianNorm), 'of all entries');
      const stop = stopAt(tau);
      const equals = stop && stop[0] !== '1' ? ` = ${stop[0].replace('1 = ', '')}` : '';
      const words = equals.replace('√d_k', 'the square root of d k').replace('d_k', 'd k');
      range.show(tickOf(tau), `τ = ${tauText(tau)}${equals}`, `τ = ${tauText(tau)}${words}`);
      stops.querySelectorAll('button').forEach((button) => {
        button.setAttribute('aria-pressed', String(Number(button.dataset.tau) === tau));
      });
      app.dataset.tau = tau;
      live.say(`${query.name}, τ = ${tauText(tau)}: largest weight ${weightText(r.largest)}, on ${nameOf(best)}; `
        + `entropy ${fixed(r.entropy, 2)} nats; largest entry of the Jacobian ${small(r.jacobianMax)}.`);
    }
    function setTau(tau) {
      state.tau = tau;
      paint();
    }
    /* Another query: a marked temperature stays that mark, any other stays as near as the scale lets it. */
    function setQuery(i) {
      const before = stopAt(state.tau);
      state.query = data.queries[i];
      const same = before && state.query.stops.find(([name]) => name === before[0]);
      state.tau = same ? same[1] : Math.min(high(), Math.max(low(), state.tau));
      buildBars();
      showStops();
      paint();
    }

    const select = el('select', { id: `${id}-query`, autocomplete: 'off' },
      ...data.queries.map((query, i) => el('option', { value: i }, query.name)));
    select.value = data.start;
    select.addEventListener('change', () => setQuery(Number(select.value)));
    const field = el('div', { class: 'tdw-field' }, el('label', { for: select.id, class: 'tdw-name' }, 'Query'), select);
    const legend = el('p', { class: 'tdb-legend' }, 'Dashed line: 1/', el('i', {}, 'm'), ', all keys alike. ', J(), ' = ∂',
      el('i', {}, 'a'), '/∂', el('i', {}, 's'), ' is the Jacobian of the softmax, ', el('i', {}, 's'), ' = ',
      el('i', {}, 'q'), '·', el('i', {}, 'k'), '/τ; with respect to the raw products it is ', J(), '/τ.');
    if (data.queries.length > 1) app.append(field);
    app.append(range.node, stops, el('div', { class: 'tdb-tiles' }, ...Object.values(tiles).map((t) => t.node)),
      bars, legend, live.node);
    buildBars();
    showStops();
    paint();
    live.cancel();
  }

  start('bars', build);
})();
