// What a token takes beside its price: time, energy, MFU, the phases of a step and the loss, of the fastest
// configurations per device; and cost against time for all of them.

const kMostBars = 12;
const kPhases = ['forward', 'backward', 'optimizer', 'data'];

// Of the measured steps alone, as tokens are: the energy counters ran during the warm-up steps, too.
function measuredJoules(data, row) {
  const steps = data.number('extra.steps', row);
  const warmup = data.number('extra.warmup_steps', row) || 0;
  return data.number('extra.gpu_energy_joules', row) * (warmup > 0 ? (steps - warmup) / steps : 1);
}

function drawTokens(view, prices) {
  const draw = () => {
    const rows = fastest(view);
    byId('tokens-note').textContent = rows.length === 0 ? ''
      : `The fastest configuration per device of each model, experiment and sequence length, by ${view.rate}` +
        `${rows.length === kMostBars ? `, the ${kMostBars} most measured` : ''}. What a run did not measure has no bar.`;
    drawPanels(byId('chart-tokens'), barPanels(view, rows), 6,
      (panel, width) => barPanel(view, rows, panel, width));
    drawCostAgainstTime(view, prices);
  };
  view.watch(draw);
  draw();
}

// For each model, experiment and length the configuration with the highest rate of a device.
function fastest(view) {
  const {data} = view;
  if (!view.rateNumbers) return [];
  const valid = [...view.validRows].filter(row => view.rateNumbers[row] > 0);
  return [...grouped(valid, row => answerKey(data, row))].sort(mostFirst).slice(0, kMostBars)
    .sort((a, b) => ordered(a[0], b[0]))
    .map(([name, rows]) => {
      const rate = repeats => median(repeats.map(row => ratePerDevice(view, row)));
      return {name, repeats: view.configurations(rows).reduce((a, b) => rate(b) > rate(a) ? b : a)};
    });
}

// {title, unit, parts: repeats -> [{label, value}]}, of which some configuration has a value: the median.
function barPanels(view, rows) {
  const {data} = view;
  const tokens = row => data.number('extra.dataset_tokens', row);
  const part = (label, value) => repeats => ({label, value: median(repeats.map(value))});
  const one = value => repeats => [part('', value)(repeats)];
  const panels = [
    {title: 'Energy', unit: 'Wh per million dataset tokens',
      parts: one(row => measuredJoules(data, row) / 3600 / tokens(row) * 1e6)},
    {title: 'Model FLOPs utilization', unit: '% of the peak',
      parts: one(row => 100 * data.number('extra.mfu', row))},
    {title: 'Where a step goes', unit: 's per step', parts: repeats => kPhases.map(label =>
      part(label, row => data.number(`extra.${label}_seconds`, row))(repeats))},
    {title: 'Loss at the last step', unit: 'mean over its tokens',
      parts: one(row => data.number('extra.loss_last', row))},
  ];
  return panels.filter(panel => rows.some(({repeats}) => panel.parts(repeats).some(({value}) => value > 0)));
}

function barPanel(view, rows, panel, width) {
  const bars = rows.map(({name, repeats}) => ({name, repeats, parts: panel.parts(repeats).filter(p => p.value > 0)}))
    .filter(bar => bar.parts.length > 0);
  const whole = bar => bar.parts.reduce((sum, part) => sum + part.value, 0);
  const tall = 34;
  const frame = {left: 8, right: width - 60, top: 8, bottom: 8 + tall * bars.length};
  const x = linearScale(0, extremes(bars.map(whole))[1], frame.left, frame.right);
  const labels = [...new Set(bars.flatMap(bar => bar.parts.map(part => part.label)))];
  const color = label => `var(--s${Math.max(0, labels.indexOf(label))})`;
  const drawn = bars.map((bar, place) => {
    const top = frame.top + place * tall;
    let at = 0;
    const lines = [`${bar.name}: ${formatted(whole(bar))} ${panel.unit}`,
      ...(labels.length > 1 ? bar.parts.map(part => `${part.label} ${formatted(part.value)}`) : []),
      ...configurationLines(view.data, bar.repeats[0])];
    return mark(lines, bar.repeats, {'data-group': 0, 'data-place': place},
      s('text', {x: frame.left, y: top + 11}, bar.name),
      bar.parts.map(part => {
        const from = x(at);
        at += part.value;
        return s('rect', {class: 'shape', x: from, y: top + 15, width: Math.max(1, x(at) - from), height: 13,
          fill: color(part.label)});
      }),
      s('text', {x: x(at) + 5, y: top + 26}, brief(whole(bar))));
  });
  return h('figure', {'data-panel': panel.title}, h('figcaption', null, `${panel.title} (${panel.unit})`),
    chartSvg(width, frame.bottom + 4, panel.title, drawn),
    labels.length > 1 ? legend('phase', labels.map(label => ({label, color: color(label), shape: 'square'})))
      : null,
    alternative([{label: 'configuration'}, ...labels.map(label => ({label: label || panel.unit, numeric: true}))],
      () => bars.map(bar => [bar.name, ...labels.map(label =>
        formatted(bar.parts.find(part => part.label === label)?.value ?? null))])));
}

// Hours for a billion tokens on all devices, against what a USD buys: up and to the left is better.
function drawCostAgainstTime(view, prices) {
  const {data} = view;
  const container = byId('chart-cost');
  const rates = view.rateNumbers;
  const whole = row => ratePerDevice(view, row) * data.deviceCount(row);
  const cost = prices.column.numbers_;
  const rows = rates ? [...view.validRows].filter(row => cost[row] > 0 && rates[row] > 0) : [];
  byId('cost-title').hidden = rows.length === 0;
  if (rows.length === 0) {
    container.replaceChildren();
    byId('cost-note').textContent = '';
    return;
  }
  const hours = Float64Array.from({length: data.rows}, (_, row) => 1e9 / whole(row) / 3600);
  const bought = Float64Array.from(cost, usd => 1 / usd);
  const shown = medianFigures(view, rows);
  const chart = paretoChart(view, 'input.model_name', colorGroups(data, shown.rows, 'input.model_name'),
    shown.of(bought), shown.of(hours),
    {x: `hours for a billion ${prices.counted}`, y: `million ${prices.counted} for a USD`, xUnit: 'h',
      yUnit: `million ${prices.counted} for a USD`}, container, shown.repeats);
  container.replaceChildren(h('div', {class: 'panels wide'}, chart.figure));
  byId('cost-note').textContent = `${plural(shown.rows.length, 'configuration')} on devices with a price, by the medians of repeats. Up and to the ` +
    `left is better: a front has what nothing beats in both.`;
}
