// Tokens per second against batch size and against sequence length: a panel per model, a line per value of
// the other one. A mark stands for all configurations with the same x in its line.

const kMostLines = 8;
const kMostPlaces = 40;
const kStatistics = {
  best: {label: 'best configuration', of: numbers => extremes(numbers)[1]},
  median: {label: 'median configuration', of: median},
};

// Columns whose values make panels and lines: inputs and outcomes that vary, but not in every row.
function groupingColumns(data) {
  return data.columns.filter(c => !c.constant && c.exact && c.values.length <= 200 &&
    (c.group === 'input' || c.key === 'derived.devices' || c.key === 'outcome.experiment'
      || c.key === 'environment.host'));
}

// Many different numbers become powers of two; few stay what they are.
function places(numbers, most) {
  const exact = [...new Set(numbers)].sort((a, b) => a - b);
  if (exact.length <= most) return {of: number => number, all: exact, label: formatted, binned: false};
  const floor = number => number >= 1 ? 2 ** Math.floor(Math.log2(number)) : number;
  return {of: floor, all: [...new Set(exact.map(floor))], binned: true,
    label: low => low >= 2 ? `${low}–${2 * low - 1}` : formatted(low)};
}

// The inputs in which rows differ, so that nobody takes a mark for one configuration.
function differing(data, rows) {
  return data.columns.filter(column => column.group === 'input' && !column.constant &&
    rows.some(row => column.value(row) !== column.value(rows[0]))).map(column => column.label);
}

function drawThroughput(view) {
  const {data} = view;
  const options = groupingColumns(data).map(column => [column.key, column.label]);
  const state = {panels: data.column('outcome.experiment')?.constant === false ? 'both'
    : 'input.model_name',
    lines: 'usual', statistic: 'best'};
  byId('throughput-controls').replaceChildren(
    rateChoice(view), deviceChoice(view),
    choice('A mark is the', Object.entries(kStatistics).map(([key, {label}]) => [key, label]),
      state.statistic,
      value => { state.statistic = value; draw(); }),
    choice('Panels by', [['input.model_name', 'model_name'], ['both', 'model_name and experiment'],
      ...options.filter(([key]) => key !== 'input.model_name')], state.panels,
        value => { state.panels = value; draw(); }),
    choice('Lines by', [['usual', 'the other of batch size and length'], ...options], state.lines,
      value => { state.lines = value; draw(); }));

  const draw = () => {
    const rates = view.rateNumbers;
    const rows = rates ? view.chartRows(view.validRows).filter(row => rates[row] > 0) : [];
    byId('throughput-note').textContent =
      `${plural(rows.length, 'valid measurement')} on ${view.devicesShown}. ` +
      `A mark is the ${kStatistics[state.statistic].label} behind it, each by the median of its repeats. ` +
        `What they differ in stands in its description, ` +
      'and a whisker spans repeats of one configuration. Enter or a click lists them in the table below.';
    const charts = [['chart-batch', 'input.batch_size', 'input.model_max_length'],
      ['chart-length', 'input.model_max_length', 'input.batch_size']];
    for (const [id, x, lines] of charts) {
      const lineKey = state.lines === 'usual' ? lines : state.lines;
      drawRatePanels(view, byId(id), rows, {x: data.column(x), line: data.column(lineKey),
        panel: panelKey(data, state.panels),
        statistic: kStatistics[state.statistic].of});
    }
  };
  view.watch(draw);
  draw();
}

function rateChoice(view) {
  const select = choice('Rate', view.rates.map(name => [name, name]), view.rate,
    value => { view.rate = value; view.changed(); });
  view.watch(() => { select.querySelector('select').value = view.rate; });
  return select;
}

// Measurements on other devices do not compare: the charts show one kind at a time, unless asked for all.
function deviceChoice(view) {
  const devices = view.data.column('derived.devices').values.slice(1).sort(ordered);
  const select = choice('Devices', [['', 'most measured'], ['*', 'all together'],
    ...devices.map(d => [d, d])], view.devices,
    value => { view.devices = value; view.changed(); });
  view.watch(() => { select.querySelector('select').value = view.devices; });
  return select;
}

const panelKey = (data, key) => key === 'both'
  ? row => `${data.text('input.model_name', row)} · ${tuningName(data.text('outcome.experiment', row))}`
  : row => data.text(key, row) || '(none)';

// "finetune_lora_benchmark-v1.0.0" -> "lora"
const tuningName = experiment =>
  experiment.replace(/^finetune[_-]/, '').replace(/[_-]benchmark/, '').replace(/-v[\d.]+$/, '');

// Groups with many rows before those with few.
const mostFirst = (a, b) => b[1].length - a[1].length || ordered(a[0], b[0]);

function drawRatePanels(view, container, rows, by) {
  const panels = [...grouped(rows, by.panel)].sort(mostFirst);
  drawPanels(container, panels, 6, ([name, members], width) =>
    ratePanel(view, name, members, by, width));
}

function ratePanel(view, name, rows, by, width) {
  const xs = places(rows.map(row => by.x.numbers[row]), kMostPlaces);
  const lineText = row => by.line.text(row) || '(none)';
  const all = [...grouped(rows, lineText)].sort((a, b) => ordered(a[0], b[0]));
  const lines = fewest(all, kMostLines);
  const points = lines.map(([label, members], index) => ({label, color: ordinalColor(index, lines.length),
    shape: kShapes[index], marks: linePoints(view, members, xs, by)}));
  const unit = view.data.column(`measured.${view.rate}`).unit;
  const notes = [xs.binned ? `${by.x.label} in powers of two` : '',
    all.length > lines.length
      ? `${all.length - lines.length} of ${all.length} lines left out, those with the fewest measurements`
      : ''];
  return h('figure', {'data-panel': name},
    h('figcaption', null, name),
    rateSvg(view, name, points, xs, `${by.x.label}${by.x.unit ? ` (${by.x.unit})` : ''}`,
      unit || view.rate, by.line.label, width),
    legend(by.line.label, points),
    notes.filter(Boolean).map(note => h('p', {class: 'note'}, note)),
    alternative([{label: by.line.label, numeric: by.line.numeric}, {label: by.x.label, numeric: true},
      {label: view.rate, numeric: true},
      {label: 'least', numeric: true}, {label: 'greatest', numeric: true}, {label: 'measurements',
        numeric: true}],
    () => points.flatMap(line => line.marks.map(m =>
      [line.label, xs.label(m.x), formatted(m.y), formatted(m.least), formatted(m.greatest),
        count(m.rows.length)]))));
}

// Lines have an order (lengths, batch sizes), and so have their colors.
const ordinalColor = (index, lines) => `var(--o${lines < 2 ? 2 : Math.round(index * 7 / (lines - 1))})`;

// The `most` groups with the most rows, in their old order.
function fewest(groups, most) {
  const kept = new Set([...groups].sort((a, b) => b[1].length - a[1].length).slice(0, most));
  return groups.filter(group => kept.has(group));
}

function linePoints(view, rows, xs, by) {
  const rates = view.rateNumbers;
  return [...grouped(rows, row => xs.of(by.x.numbers[row]))].sort((a, b) =>
    a[0] - b[0]).map(([x, members]) => {
    const numbers = members.map(row => rates[row]);
    const [least, greatest] = extremes(numbers);
    const medians = view.configurations(members).map(repeats => median(repeats.map(row => rates[row])));
    return {x, y: by.statistic(medians), least, greatest, rows: members};
  });
}

function rateSvg(view, name, lines, xs, xTitle, yTitle, lineLabel, width) {
  const frame = {left: 52, right: width - 12, top: 24, bottom: 220};
  const [, top] = extremes(lines.flatMap(line => line.marks.map(m => repeated(view.data, m.rows)
    ? m.greatest : m.y)));
  const y = linearScale(0, top * 1.04, frame.bottom, frame.top);
  const positive = xs.all[0] > 0;
  const inner = [frame.left + 14, frame.right - 14];
  const ticks = thinned(xs.all, 8);
  const x = positive ? logScale(xs.all[0], xs.all.at(-1), ...inner, ticks) : linearScale(xs.all[0],
    xs.all.at(-1), ...inner);
  if (xs.all.length === 1) x.ticks = xs.all;
  x.label = xs.binned ? low => `${low}+` : formatted;
  const drawn = lines.map((line, index) => s('g', null,
    s('polyline', {class: 'line', stroke: line.color,
      points: line.marks.map(m => `${x(m.x).toFixed(1)},${y(m.y).toFixed(1)}`).join(' ')}),
    line.marks.map((m, place) => mark(rateLines(view, name, line, m, xs, xTitle, yTitle, lineLabel), m.rows,
      {'data-group': index, 'data-place': place},
      repeated(view.data, m.rows) && s('line', {class: 'whisker', stroke: line.color, x1: x(m.x),
        x2: x(m.x), y1: y(m.least), y2: y(m.greatest)}),
      shape(line.shape, x(m.x), y(m.y), 4.5, {fill: line.color})))));
  return chartSvg(width, 262, `${name}: ${yTitle} against ${xTitle}`, axes(frame, x, y, xTitle, yTitle),
    drawn);
}

function rateLines(view, name, line, m, xs, xTitle, yTitle, lineLabel) {
  const behind = m.rows.length === 1 ? ['one measurement'] : [
    `${plural(m.rows.length, 'measurement')}, ${formatted(m.least)} to ${formatted(m.greatest)}`,
    m.rows.length <= 5000 ? differenceText(differing(view.data, m.rows)) : ''];
  const doubt = doubtText(view.data, m.rows);
  return [`${name}: ${formatted(m.y)} ${yTitle}${doubt ? `, ${doubt}` : ''}`, `${xTitle} ${xs.label(m.x)}, ${lineLabel} ${line.label}`,
    ...behind.filter(Boolean)];
}

const repeated = (data, rows) => rows.length > 1 && rows.every(row => data.text('derived.key',
  row) === data.text('derived.key', rows[0]));

const differenceText = names => names.length === 0 ? 'repeats of one configuration'
  : `they differ in ${names.join(', ')}`;

// At most `most` of the values, evenly spaced, the first and the last among them.
function thinned(values, most) {
  if (values.length <= most) return values;
  return Array.from({length: most}, (_, i) => values[Math.round(i * (values.length - 1) / (most - 1))]);
}
