/* Brings every figure.td-plotly on the page to life, once: draws its first view with the plotly.js
   of the page, and the chosen one after that. Where there is no plotly.js, the tables stay. */
(() => {
  'use strict';

  function alive(figure) {
    if (figure.dataset.ready) return;
    figure.dataset.ready = 'true';
    const find = (selector) => figure.querySelector(selector);
    const { layout, config, views } = JSON.parse(find('script[type="application/json"]').textContent);
    const graph = find('.tdp-graph');
    const tables = [...figure.querySelectorAll('.tdp-scroll')];

    function show(i) {
      graph.setAttribute('aria-label', views[i].alt);
      if (find('.tdp-says').textContent !== views[i].says) find('.tdp-says').textContent = views[i].says;
      tables.forEach((table, t) => { table.hidden = t !== i; });
      /* plotly.js writes into what it is given: let it have copies */
      const { traces } = JSON.parse(JSON.stringify(views[i]));
      window.Plotly.react(graph, traces, JSON.parse(JSON.stringify(layout)), config);
    }

    graph.hidden = false;
    find('.tdp-numbers').open = false;
    const choice = find('.tdp-choice');
    if (choice) {
      choice.hidden = false;
      choice.addEventListener('change', (event) => show(Number(event.target.value)));
    }
    /* a browser may remember what was chosen when the page was left */
    show(choice ? Number(choice.querySelector('input:checked').value) : 0);
  }

  const all = () => window.Plotly && document.querySelectorAll('figure.td-plotly').forEach(alive);
  if (window.Plotly || document.readyState === 'complete') all();
  else window.addEventListener('load', all, { once: true });
})();
