// Tokens per second against memory, and the front of those that no other configuration beats in both, by the
// medians of repeats: one front per color. The front is exact; of the rest, what falls into one cell of a fine grid is one mark.

const kGrid = {columns: 96, rows: 60};
const kColors = 8;

function drawPareto(view) {
  const {data} = view;
  const state = {colors: 'input.model_name'};
  const others = groupingColumns(data).filter(column => column.key !== 'input.model_name');
  byId('pareto-controls').replaceChildren(rateChoice(view),
    choice('Colors by', [['input.model_name', 'model_name'], ...others.map(c => [c.key, c.label])],
      state.colors,
      value => { state.colors = value; draw(); }));
  const draw = () => {
    const rates = view.rateNumbers;
    const memory = data.column('derived.peak_memory').numbers;
    const rows = rates ? [...view.validRows].filter(row => rates[row] > 0 && memory[row] > 0) : [];
    const container = byId('chart-pareto');
    if (rows.length === 0) {
      container.replaceChildren(h('p', {class: 'note'},
        'No valid measurement with both figures among those that are shown.'));
      byId('pareto-note').textContent = '';
      return;
    }
    const shown = medianFigures(view, rows);
    const groups = colorGroups(data, shown.rows, state.colors);
    const unit = data.column(`measured.${view.rate}`).unit || view.rate;
    const chart = paretoChart(view, state.colors, groups, shown.of(rates), shown.of(memory),
      {x: 'peak memory of the fullest rank (GiB)', y: unit, xUnit: 'GiB', yUnit: unit}, container, shown.repeats);
    container.replaceChildren(h('div', {class: 'panels wide'}, chart.figure));
    byId('pareto-note').textContent =
      `${plural(shown.rows.length, 'configuration')}, by the medians of repeats, as ${plural(chart.marks, 'mark')}: ` +
      `${plural(chart.front, 'configuration')} on a front, each for itself, and the rest pooled where ` +
        `they fall into one cell of a ` +
      `${kGrid.columns} × ${kGrid.rows} grid. Up and to the left is better. The keyboard walks along ` +
        `the fronts.`;
  };
  view.watch(draw);
  draw();
}

// A row for each configuration: its first. of(numbers) has the medians under these rows.
function medianFigures(view, rows) {
  const behind = new Map(view.configurations(rows).map(repeats => [repeats[0], repeats]));
  return {rows: [...behind.keys()], repeats: row => behind.get(row),
    of: numbers => {
      const medians = [];
      for (const [row, repeats] of behind) medians[row] = median(repeats.map(repeat => numbers[repeat]));
      return medians;
    }};
}

// The values with the most rows get a color each, all others share one.
function colorGroups(data, rows, key) {
  const all = [...grouped(rows, row => data.text(key, row) || '(none)')];
  const kept = fewest(all, all.length <= kColors ? kColors : kColors - 1);
  const rest = all.filter(group => !kept.includes(group));
  const named = kept.sort((a, b) => ordered(a[0], b[0])).map(([label, members], index) =>
    ({label, rows: members, color: `var(--s${index})`, shape: kShapes[index]}));
  if (rest.length > 0) {
    named.push({label: `${plural(rest.length, 'other')}`, rows: rest.flatMap(group => group[1]),
      color: 'var(--s7)', shape: kShapes[7]});
  }
  return named;
}

// No row in it needs more memory than another and is slower: by memory, ever faster.
function paretoFront(rows, rates, memory) {
  const front = [];
  for (const row of [...rows].sort((a, b) => memory[a] - memory[b] || rates[b] - rates[a])) {
    if (front.length === 0 || rates[row] > rates[front.at(-1)]) front.push(row);
  }
  return front;
}

// With a little room on both sides, for an axis in logarithms.
function roomy(rows, numbers) {
  const [low, high] = extremes(rows.map(row => numbers[row]));
  return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
}

// `titles`: {x, y, xUnit, yUnit}, `repeats(row)`: the measurements behind a row. Little of x and much of y is better.
function paretoChart(view, key, groups, rates, memory, titles, container, repeats) {
  const width = panelWidth(container, 1);
  const frame = {left: 56, right: width - 16, top: 26, bottom: 400};
  const rows = groups.flatMap(group => group.rows);
  const x = logScale(...roomy(rows, memory), frame.left, frame.right);
  const y = logScale(...roomy(rows, rates), frame.bottom, frame.top);
  for (const group of groups) {
    group.front = paretoFront(group.rows, rates, memory);
    const onFront = new Set(group.front);
    group.pooled = pooled(group.rows.filter(row => !onFront.has(row)), row => x(memory[row]),
      row => y(rates[row]), frame);
  }
  const describe = (group, row) =>
    [`${group.label}: ${formatted(rates[row])} ${titles.yUnit}, ${formatted(memory[row])} ${titles.xUnit}`,
    'on the front', ...configurationLines(view.data, row), doubtText(view.data, repeats(row))].filter(Boolean);
  const clouds = groups.map(group => s('g', {opacity: .45}, group.pooled.map(cell => {
    const dot = shape(group.shape, cell.x, cell.y, Math.min(6, 2.2 + Math.log10(cell.rows.length) * 1.4),
      {fill: group.color});
    return s('g', {class: 'pooled'},
      s('title', null, `${group.label}: ${plural(cell.rows.length, 'configuration')}`), dot);
  })));
  const fronts = groups.map((group, index) => s('g', null,
    s('polyline', {class: 'line', stroke: group.color,
      points: stairs(group.front.map(row => [x(memory[row]), y(rates[row])]))}),
    group.front.map((row, place) => mark(describe(group, row), repeats(row), {'data-group': index,
      'data-place': place},
      shape(group.shape, x(memory[row]), y(rates[row]), 5.5, {fill: group.color, stroke: 'var(--panel)',
        'stroke-width': 1.5})))));
  const front = groups.reduce((sum, group) => sum + group.front.length, 0);
  const figure = h('figure', null,
    chartSvg(width, 444, `${titles.y} against ${titles.x}`, axes(frame, x, y, titles.x, titles.y), clouds, fronts),
    legend(view.data.column(key).label, groups),
    alternative([{label: 'front of'}, {label: titles.x, numeric: true},
      {label: titles.y, numeric: true}, {label: 'configuration'}],
      () => groups.flatMap(group => group.front.map(row =>
        [group.label, formatted(memory[row]), formatted(rates[row]), configurationLines(view.data,
          row).join(', ')]))));
  return {figure, front, marks: front + groups.reduce((sum, group) => sum + group.pooled.length, 0)};
}

// A front is a staircase: until the next step, nothing faster is to be had.
const stairs = points => points.flatMap(([px, py], i) => i === 0 ? [[px, py]] : [[px, points[i - 1][1]],
  [px, py]])
  .map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(' ');

// One mark per cell of the grid, at the mean place of its rows.
function pooled(rows, x, y, frame) {
  const cells = new Map();
  for (const row of rows) {
    const [px, py] = [x(row), y(row)];
    const key = Math.floor((px - frame.left) / (frame.right - frame.left) * kGrid.columns) * 1000 +
      Math.floor((py - frame.top) / (frame.bottom - frame.top) * kGrid.rows);
    const cell = cells.get(key) ?? {x: 0, y: 0, rows: []};
    cell.x += px;
    cell.y += py;
    cell.rows.push(row);
    cells.set(key, cell);
  }
  return [...cells.values()].map(cell => ({x: cell.x / cell.rows.length, y: cell.y / cell.rows.length,
    rows: cell.rows}));
}

// The inputs that vary on the page, as one reads them: "batch_size 8".
function configurationLines(data, row) {
  return data.columns.filter(column => column.group === 'input' && !column.constant
    && column.value(row) !== null)
    .map(column => `${column.label} ${column.text(row)}`);
}
