/* The output of attention in the convex hull of the values. Needs widgets.js. */
(() => {
  'use strict';
  const { el, sum, softmax, fixed, weightText, tauText, slider, announcer, start } = window.tdWidgets;
  const TICKS = 60; /* on either side of the middle */
  const MOST_ADDED = 6;
  const WARMEST = 8; /* the temperature goes from 1/8 to 8 */

  function build(app, data, id, figure) {
    const { values, scores, labels, places } = data;
    const [x0, y0, unit] = data.plane;
    const none = () => scores.map(() => 0);
    const state = { j: data.chosen, added: none(), tick: 0 };
    const tauOf = (tick) => WARMEST ** (tick / TICKS);
    const live = announcer();
    const mean = (weights) => [0, 1].map((axis) => sum(weights.map((a, i) => a * values[i][axis])));
    const place = ([x, y]) => [x0 + unit * x, y0 - unit * y];
    const point = ([x, y]) => `(${fixed(x, places)}, ${fixed(y, places)})`;
    const plus = (c) => (c > 0 ? '+' : '') + fixed(c, 1);
    const percent = (share) => (share < 0.001 ? '<0.1\u00a0%' : `${(100 * share).toFixed(1)}\u00a0%`);

    /* ---- the drawing: Python's, of which the parts that depend on the weights are moved ---- */
    const plot = figure.querySelector('.tdw-static .tdh-plot').cloneNode(true);
    const svg = plot.querySelector('.tdh-svg');
    const part = (name) => svg.querySelector(`.tdh-${name}`);
    const parts = (name) => [...svg.querySelectorAll(name)];
    const [pulls, circles, numbers] = [parts('.tdh-pull'), parts('.tdh-value'), parts('tspan[data-i]')];
    const set = (node, attributes) => Object.entries(attributes).forEach(
      ([name, value]) => node.setAttribute(name, typeof value === 'number' ? value.toFixed(2) : value));
    const moveTo = (node, at) => set(node, { transform: `translate(${at[0].toFixed(2)} ${at[1].toFixed(2)})` });

    /* ---- the numbers ---- */
    const said = el('p', { class: 'tdh-said' });
    const distance = el('p', { class: 'tdh-distance' });
    const rows = labels.map((label, i) => {
      const [score, weight] = [el('td', {}), el('td', {})];
      const node = el('tr', {}, el('th', { scope: 'row' }, label), el('td', {}, point(values[i])), score, weight);
      return { node, score, weight };
    });
    const th = (text) => el('th', { scope: 'col' }, text);
    const table = el('div', { class: 'tdw-scroll', tabindex: '0', role: 'region', 'aria-label': 'Values, scores and weights' },
      el('table', { class: 'tdw-table' }, el('thead', {}, el('tr', {}, ...['key', 'value', 'score', 'weight'].map(th))),
        el('tbody', {}, ...rows.map((row) => row.node))));

    /* ---- the controls ---- */
    const radios = labels.map((label, i) => {
      const radio = el('input', { type: 'radio', name: `${id}-key`, id: `${id}-key-${i}`, value: i, autocomplete: 'off' });
      radio.addEventListener('change', () => { state.j = i; paint(); });
      return radio;
    });
    const changes = labels.map(() => el('span', { class: 'tdh-change' }));
    const keys = el('fieldset', { class: 'tdw-field' }, el('legend', { class: 'tdw-name' }, 'Key whose score is changed'),
      el('div', { class: 'tdw-segments' }, ...labels.flatMap((label, i) => [radios[i],
        el('label', { for: radios[i].id }, el('span', {}, label), changes[i])])));
    const added = slider(`${id}-added`, 'added to its score', -10 * MOST_ADDED, 10 * MOST_ADDED, (tick) => {
      state.added[state.j] = tick / 10;
      paint();
    });
    const heat = slider(`${id}-tau`, 'temperature of all scores', -TICKS, TICKS, (tick) => {
      state.tick = tick;
      paint();
    });
    const reset = el('button', { type: 'button' }, 'Reset');
    reset.addEventListener('click', () => {
      Object.assign(state, { j: data.chosen, added: none(), tick: 0 });
      paint();
    });

    function paint() {
      const { j, added: c } = state;
      const tau = tauOf(state.tick);
      const logits = scores.map((s, i) => s / tau + c[i]);
      const a = softmax(logits);
      const o = mean(a);
      /* the same with nothing added to the chosen score, and the far end of the way: without its key */
      const before = softmax(logits.map((x, i) => (i === j ? scores[j] / tau : x)));
      const origin = mean(before);
      const others = softmax(logits.filter((_, i) => i !== j));
      const far = mean(labels.map((_, i) => (i === j ? 0 : others[i > j ? i - 1 : i])));
      const share = 1 / (1 + before[j] * Math.expm1(c[j]));
      const length = Math.hypot(origin[0] - values[j][0], origin[1] - values[j][1]);
      const left = length * share;

      const [ox, oy] = place(o);
      const [vx, vy] = place(values[j]);
      const [fx, fy] = place(far);
      pulls.forEach((line, i) => {
        set(line, { x1: ox, y1: oy });
        line.style.setProperty('--w', a[i].toFixed(4));
      });
      circles.forEach((circle, i) => set(circle, { r: 3 + 12 * Math.sqrt(a[i]) }));
      numbers.forEach((number, i) => { number.textContent = weightText(a[i]); });
      set(part('way'), { x1: fx, y1: fy, x2: vx, y2: vy });
      set(part('ring'), { cx: vx, cy: vy, r: 7 + 12 * Math.sqrt(a[j]) });
      moveTo(part('origin'), place(origin));
      moveTo(part('output'), [ox, oy]);

      rows.forEach(({ node, score, weight }, i) => {
        node.classList.toggle('tdh-chosen', i === j);
        Object.assign(node.dataset, { score: logits[i], weight: a[i] });
        score.textContent = fixed(logits[i], 2);
        weight.textContent = weightText(a[i]);
        changes[i].textContent = c[i] === 0 ? '' : plus(c[i]);
        radios[i].checked = i === j;
      });
      const tauSays = `τ = ${tauText(tau)}`;
      added.label.textContent = `added to the score of ${labels[j]}`;
      added.show(Math.round(10 * c[j]), plus(c[j]), `${plus(c[j])} to the score of ${labels[j]}`);
      heat.show(state.tick, tauSays);
      said.replaceChildren('Output ', el('i', {}, 'o'), ' = ', el('b', {}, point(o)));
      const apart = length * unit > 0.01;
      distance.replaceChildren(...(apart ? [`Distance to ${labels[j]}: `, el('b', {}, fixed(left, places)), ', which is ',
        el('b', {}, percent(share)), ` of the ${fixed(length, places)} with nothing added to its score. `,
        el('span', { class: 'tdh-formula' }, `1 / (1 + ${weightText(before[j])} · (e`, el('sup', {}, fixed(c[j], 1)),
          ` − 1)) = ${weightOrMore(share)}`)]
        : [`With nothing added to its score the output already lies on ${labels[j]}: the way has no length.`]));
      Object.assign(app.dataset, { tau, x: o[0], y: o[1], share, left, length, farX: far[0], farY: far[1] });
      live.say(`Output ${point(o)}; weight of ${labels[j]} ${weightText(a[j])}`
        + `${apart ? `; ${percent(share)} of the way to it left` : ''}.`);
    }
    const weightOrMore = (share) => (share < 1 ? weightText(share) : share.toFixed(3));

    const controls = el('div', { class: 'tdh-controls' }, keys, added.node, heat.node, reset);
    app.append(el('div', { class: 'tdh-body' }, plot, el('div', { class: 'tdh-side' }, controls, said, distance)), table, live.node);
    paint();
    live.cancel();
  }

  start('hull', build);
})();
