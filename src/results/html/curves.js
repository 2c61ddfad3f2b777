// The loss of a run over its steps, and what it used over time: a small chart for each quantity,
// several runs over each other. A place of a curve stands for one reading or for several: the line
// is their mean, and the band reaches from the least to the greatest.

const kQuantities = ['loss', 'evaluation', 'step_seconds', 'gpu_use', 'gpu_memory', 'gpu_power',
  'cpu', 'host_memory'];
const kHasBand = 1;
const kSameX = 2;
const kNoCode = 65535;
const kMostCompared = 8;
const kDashes = ['', '7 3', '2 3', '9 3 2 3', '4 2', '12 3', '1 3', '6 2 1 2 1 2'];

// `limit`: drawn always, or where the curves come near it; else it stands beside the unit. `gib`:
// the memory that a hundred percent are, 0 where it is not known.
const kNearLimit = .25;
const kCurvePanels = [
  {key: 'loss', title: 'Loss', unit: 'mean over its tokens', x: 'step'},
  {key: 'step_seconds', title: 'Time of a step', unit: 's', x: 'step', fromZero: true},
  {key: 'gpu_use', title: 'GPU use', unit: '%', fromZero: true, limit: 'always'},
  {key: 'gpu_memory', title: 'GPU memory', unit: '% of the device', fromZero: true, limit: 'near',
    limitText: 'the memory of the device',
    gib: (data, row) => (data.head.gpu_memory_bytes?.[data.device(row)] ?? 0) / kGiB},
  {key: 'gpu_power', title: 'GPU power', unit: 'W', fromZero: true, limit: 'near',
    limitText: 'the power limit'},
  {key: 'cpu', title: 'CPU', unit: 'busy cores of a node', fromZero: true},
  {key: 'host_memory', title: 'Memory of the host', unit: '% of a node', fromZero: true,
    limit: 'near', limitText: 'the memory of the node',
    gib: (data, row) => data.number('environment.host_memory_bytes', row)},
];

class Curves {
  // `place`: where the columns begin in the buffer; `head`: as report_html.cpp describes the
  // curves.
  constructor(buffer, place, head, rows) {
    this.head = head;
    this.offsets = new Uint32Array(buffer, place + head.offsets, rows + 1);
    this.view = new DataView(buffer, place + head.offset);
  }

  has(row) { return this.offsets[row + 1] > this.offsets[row]; }

  // By quantity: {x, mean, least, greatest, limit, mark}; numbers, NaN for none.
  of(row) {
    const curves = {};
    let at = this.offsets[row];
    let x = [];
    while (at < this.offsets[row + 1]) {
      const quantity = kQuantities[this.view.getUint8(at)];
      const flags = this.view.getUint8(at + 1);
      const places = this.view.getUint16(at + 2, true);
      const [xLow, xHigh, low, high, limit, mark] =
        Array.from({length: 6}, (_, i) => this.view.getFloat32(at + 4 + 4 * i, true));
      at += 28;
      const column = (from, to) => {
        const read = decoder(from, to);
        return Array.from({length: places}, () => {
          at += 2;
          return read(this.view.getUint16(at - 2, true));
        });
      };
      if (!(flags & kSameX)) x = column(xLow, xHigh);
      const mean = column(low, high);
      const band = (flags & kHasBand) !== 0;
      const [least, greatest] = band ? [column(low, high), column(low, high)] : [mean, mean];
      curves[quantity] = {x, mean, least, greatest, limit, mark, band};
      at += (4 - at % 4) % 4;
    }
    return curves;
  }
}

// Of a code the number, with no more digits than the code tells apart: step 3 is not step 2.99998.
function decoder(from, to) {
  const step = (to - from) / (kNoCode - 1);
  const digits = step > 0 ? Math.min(20, Math.max(0, Math.floor(-Math.log10(step)))) : -1;
  return code => code === kNoCode ? NaN
    : digits < 0 ? Number(from.toPrecision(7)) : Number((from + code * step).toFixed(digits));
}

// The runs that a chart shows: {row, label, color, dash, curves}.
function comparedRuns(data, rows) {
  const labels = runLabels(data, rows);
  return rows.map((row, index) => ({row, label: labels[index], color: `var(--s${index})`,
    dash: kDashes[index], curves: data.curves.of(row)}));
}

// What tells the runs from each other, or from nothing the model alone.
function runLabels(data, rows) {
  const differ = data.columns.filter(column => !column.constant
    && (column.group === 'input' || column.key === 'outcome.experiment')
    && rows.some(row => column.value(row) !== column.value(rows[0])));
  const part = (column, row) => {
    if (column.key === 'outcome.experiment') return tuningName(column.text(row));
    if (column.key === 'input.model_name') return column.text(row);
    return `${column.label} ${column.text(row) || 'none'}`;
  };
  const labels = rows.map(row => differ.map(column => part(column, row)).join(', ')
    || data.text('input.model_name', row) || data.text('outcome.entity_id', row));
  const when = row => data.text('outcome.finished_at', row).slice(0, 19).replace('T', ' ');
  return labels.map((text, i) => labels.indexOf(text) === labels.lastIndexOf(text) ? text
    : `${text}, ${when(rows[i]) || `sample ${i + 1}`}`);
}

// The charts of the quantities that one of the runs has.
function curveFigures(data, runs, width) {
  return kCurvePanels.map(panel => curveFigure(data, runs, panel, width)).filter(Boolean);
}

function curveFigure(data, runs, panel, width) {
  const shown = runs.filter(run => run.curves[panel.key]);
  if (shown.length === 0) return null;
  const gib = shown.map(run => panel.gib?.(data, run.row) ?? 0);
  const inGib = panel.gib !== undefined && gib.every(limit => limit > 0);
  const lines = shown.map((run, i) =>
    scaledLine(run, run.curves[panel.key], inGib ? gib[i] / 100 : 1));
  const points = panel.key === 'loss' ? shown.filter(run => run.curves.evaluation)
    .map(run => scaledLine(run, run.curves.evaluation, 1)) : [];
  const unit = inGib ? 'GiB' : panel.unit;
  const xTitle = panel.x ?? 'seconds since the first step began';
  const name = line => runs.length === 1 ? '' : line.run.label;
  return h('figure', {'data-panel': panel.title, 'data-curve': panel.key},
    h('figcaption', null, panel.title),
    curveSvg(panel, lines, points, {width, unit, xTitle, name}),
    points.length > 0 ? h('p', {class: 'note'}, 'Diamonds: the loss on the evaluation data.')
      : null,
    alternative([...(runs.length > 1 ? [{label: 'run'}] : []), {label: xTitle, numeric: true},
      {label: `mean (${unit})`, numeric: true}, {label: 'least', numeric: true},
      {label: 'greatest', numeric: true}],
    () => lines.flatMap(line => line.x.map((x, i) => [...(runs.length > 1 ? [line.run.label] : []),
      formatted(x), ...[line.mean, line.least, line.greatest].map(column =>
        formatted(Number.isNaN(column[i]) ? null : column[i]))]))));
}

function scaledLine(run, curve, factor) {
  const scaled = column => factor === 1 ? column : column.map(value => value * factor);
  return {run, x: curve.x, mean: scaled(curve.mean), least: scaled(curve.least),
    greatest: scaled(curve.greatest), band: curve.band, limit: curve.limit * factor,
    mark: curve.mark};
}

function curveSvg(panel, lines, points, {width, unit, xTitle, name}) {
  const frame = {left: 52, right: width - 12, top: 26, bottom: 190};
  const all = [...lines, ...points];
  const [left, right] = extremes(all.flatMap(line => line.x));
  let [low, high] = extremes(all.flatMap(line =>
    [...extremes(line.least), ...extremes(line.greatest)]));
  const known = [...new Set(lines.map(line => line.limit).filter(limit => limit > 0))];
  const limits = known.filter(limit =>
    panel.limit === 'always' || panel.limit && high > kNearLimit * limit);
  const isFar = panel.limit && limits.length === 0 && known.length === 1;
  const far = isFar ? `, of ${brief(known[0])}` : '';
  high = Math.max(high, ...limits);
  if (panel.fromZero) low = Math.min(0, low);
  const room = (high - low || Math.abs(high) || 1) * .05;
  const x = linearScale(left, right, frame.left + 6, frame.right - 6);
  if (panel.x === 'step') x.ticks = x.ticks.filter(Number.isInteger);
  if (left === right) x.ticks = [left];
  const y = linearScale(panel.fromZero ? low : low - room, high + room, frame.bottom, frame.top);
  const marks = new Set(lines.map(line => line.mark).filter(mark => mark >= left && mark <= right));
  const children = [
    axes(frame, x, y, xTitle, `${unit}${far}`),
    s('g', {'aria-hidden': 'true'},
      limits.map(limit => limitLine(frame, y, limit, unit, panel.limitText)),
      marks.size === 1 ? warmUpLine(frame, x, [...marks][0]) : null,
      lines.map(line => curveShape(line, x, y, Math.max(.05, .2 / lines.length))),
      points.flatMap(line => line.x.map((step, i) => Number.isNaN(line.mean[i]) ? null
        : shape('diamond', x(step), y(line.mean[i]), 4,
          {fill: line.run.color, class: 'shape evaluation'}))))];
  const title = `${panel.title} (${unit}) against ${xTitle}`;
  return readableSvg(width, 234, title, frame, x, all, children,
    (line, i) => {
      const prefix = [points.includes(line) ? 'evaluation' : '', name(line)].filter(Boolean)
        .join(', ');
      const read = value => String(Number(value.toPrecision(4)));
      const span = line.least[i] < line.greatest[i]
        ? ` (${read(line.least[i])} to ${read(line.greatest[i])})` : '';
      return `${prefix}${prefix ? ': ' : ''}${read(line.mean[i])} ${unit}${span}`;
    }, xTitle);
}

// With one limit in sight its meaning stands beside it.
function limitLine(frame, y, limit, unit, text) {
  return s('g', {class: 'limit', 'data-limit': formatted(limit)},
    s('line', {x1: frame.left, x2: frame.right, y1: y(limit), y2: y(limit)}),
    text ? s('text', {x: frame.right, y: y(limit) - 5, 'text-anchor': 'end'},
      `${brief(limit)} ${unit}: ${text}`) : null);
}

function warmUpLine(frame, x, mark) {
  const late = x(mark) > (frame.left + frame.right) / 2;
  return s('g', {class: 'warm-up'},
    s('line', {class: 'perfect', x1: x(mark), x2: x(mark), y1: frame.top, y2: frame.bottom}),
    s('text', {x: x(mark) + (late ? -4 : 4), y: frame.bottom - 6,
      'text-anchor': late ? 'end' : 'start'}, 'measured from here'));
}

// A line with gaps where nothing is known, and its band, fainter where many lie over each other.
function curveShape(line, x, y, opacity) {
  const stretches = [[]];
  line.mean.forEach((value, i) => {
    if (!Number.isNaN(value)) stretches.at(-1).push(i);
    else if (stretches.at(-1).length > 0) stretches.push([]);
  });
  const at = (column, i) => `${x(line.x[i]).toFixed(1)},${y(column[i]).toFixed(1)}`;
  const {color, dash} = line.run;
  const known = stretches.filter(places => places.length > 0);
  return s('g', {'data-run': line.run.row}, known.map(places => [
    line.band ? s('polygon', {class: 'band', fill: color, 'fill-opacity': opacity,
      points: [...places.map(i => at(line.greatest, i)),
        ...places.toReversed().map(i => at(line.least, i))].join(' ')}) : null,
    places.length === 1
      ? s('circle', {r: 2.5, cx: x(line.x[places[0]]), cy: y(line.mean[places[0]]), fill: color})
      : s('polyline', {class: 'line curve', stroke: color, 'stroke-dasharray': dash || undefined,
        points: places.map(i => at(line.mean, i)).join(' ')})]));
}

// The pointer or the arrow keys choose a place; the tooltip says what every line has there. To
// readers of the screen the chart is a slider.
function readableSvg(width, height, title, frame, x, lines, children, describe, xTitle) {
  const cursor = s('line',
    {class: 'cursor', y1: frame.top, y2: frame.bottom, visibility: 'hidden'});
  const longest = lines.reduce((a, b) => b.x.length > a.x.length ? b : a);
  const svg = s('svg', {viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: 'slider',
    'aria-label': title, 'aria-valuemin': 0, 'aria-valuemax': longest.x.length - 1,
    'aria-valuenow': 0,
    'aria-valuetext': 'Arrow keys go along the curve'}, children, cursor);
  let place = -1;
  const choose = to => {
    place = Math.max(0, Math.min(longest.x.length - 1, to));
    const at = longest.x[place];
    const said = lines.flatMap(line => {
      const near = nearest(line.x, at);
      const step = line.x.length > 1 ? (line.x.at(-1) - line.x[0]) / (line.x.length - 1) : 0;
      const isFar = Math.abs(line.x[near] - at) > Math.max(step, 1e-9);
      return isFar || Number.isNaN(line.mean[near]) ? [] : [describe(line, near)];
    });
    cursor.lines = [`${xTitle} ${brief(at)}`,
      ...(said.length > 0 ? said : ['nothing is known here'])];
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(at));
    cursor.setAttribute('visibility', 'visible');
    svg.setAttribute('aria-valuenow', place);
    svg.setAttribute('aria-valuetext', cursor.lines.join('; '));
    showTooltip(cursor);
  };
  const leave = () => {
    cursor.setAttribute('visibility', 'hidden');
    hideTooltip();
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const px = (event.clientX - box.left) * width / box.width;
    const ends = [x(longest.x[0]), x(longest.x.at(-1))];
    const share = (px - ends[0]) / (ends[1] - ends[0] || 1);
    choose(nearest(longest.x, longest.x[0] + share * (longest.x.at(-1) - longest.x[0])));
  });
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('blur', leave);
  svg.addEventListener('keydown', event => {
    const to = {ArrowRight: place + 1, ArrowUp: place + 1, ArrowLeft: place - 1,
      ArrowDown: place - 1, PageUp: place + 10, PageDown: place - 10, Home: 0,
      End: longest.x.length - 1}[event.key];
    if (event.key === 'Escape') leave();
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });
  return svg;
}

// Of ascending numbers.
function nearest(numbers, wanted) {
  let [low, high] = [0, numbers.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] > wanted) high = middle;
    else low = middle;
  }
  return wanted - numbers[low] <= numbers[high] - wanted ? low : high;
}
