// A map per model: batch size against sequence length, colored by the peak memory of what fitted, hatched
// where memory ran out.

const kMostCells = 14;
const kOutOfMemory = new Set(['OOM_GPU', 'OOM_HOST']);

function drawMemory(view) {
  const {data} = view;
  byId('memory-controls').replaceChildren(deviceChoice(view));
  const draw = () => {
    const byPanel =
      panelKey(data, data.column('outcome.experiment')?.constant === false ? 'both' : 'input.model_name');
    const batch = data.column('input.batch_size');
    const length = data.column('input.model_max_length');
    const rows = batch && length ? view.chartRows(view.rows) : [];
    const panels = [...grouped(rows, byPanel)].sort(mostFirst);
    const limit = memoryLimit(data, rows);
    const peak = Math.max(0, extremes(rows.map(row => data.number('derived.peak_memory', row)))[1]);
    byId('memory-note').textContent =
      `${plural(rows.length, 'measurement')} on ${view.devicesShown}. Median of the peak memory of the ` +
      `fullest rank (GiB): of a GPU what its allocator took, ` +
      'without GPUs the memory of the process. Hatched: memory ran out, in some of the measurements or ' +
        '(OOM) in all. ' +
      `Colors reach from 0 to ${brief(limit ?? peak)} GiB${limit ? ', the memory of the device,' : ''} in every ` +
      `panel. The thick line is where memory ends.`;
    drawPanels(byId('chart-memory'), panels, 6, ([name, members], width) =>
      memoryPanel(view, name, members, batch, length, limit ?? peak, limit, width));
  };
  view.watch(draw);
  draw();
}

// GiB of the device, where all rows ran on one whose memory is known.
function memoryLimit(data, rows) {
  const limits = new Set(rows.map(row => data.head.gpu_memory_bytes?.[data.device(row)] ?? 0));
  const [limit] = limits;
  return limits.size === 1 && limit > 0 ? limit / kGiB : null;
}

function memoryPanel(view, name, rows, batch, length, peak, limit, width) {
  const xs = places(rows.map(row => batch.numbers[row]), kMostCells);
  const ys = places(rows.map(row => length.numbers[row]), kMostCells);
  const cells = [...grouped(rows,
    row => `${xs.of(batch.numbers[row])} ${ys.of(length.numbers[row])}`)].map(([key, members]) => {
    const [x, y] = key.split(' ').map(Number);
    return {x, y, rows: members, ...cellFigures(view.data, members)};
  }).sort((a, b) => b.y - a.y || a.x - b.x);
  return h('figure', {'data-panel': name},
    h('figcaption', null, name),
    memorySvg(name, cells, xs, ys, peak, limit, width),
    xs.binned || ys.binned ? h('p', {class: 'note'}, 'Many values: in powers of two') : null,
    alternative([{label: 'batch_size', numeric: true}, {label: 'model_max_length', numeric: true},
      {label: 'peak memory (GiB)', numeric: true},
      {label: 'valid', numeric: true}, {label: 'out of memory', numeric: true}, {label: 'measurements',
        numeric: true}],
    () => cells.map(c => [xs.label(c.x), ys.label(c.y), formatted(c.memory), count(c.valid), count(c.out),
      count(c.rows.length)])));
}

function cellFigures(data, rows) {
  const memory = rows.map(row => data.number('derived.peak_memory', row)).filter(number =>
    !Number.isNaN(number));
  return {
    valid: rows.filter(row => data.text('outcome.status', row) === 'valid').length,
    out: rows.filter(row => kOutOfMemory.has(data.text('outcome.reason', row))).length,
    memory: memory.length > 0 ? median(memory) : null,
    span: extremes(memory),
  };
}

// Between a cell where something fitted and a neighbor where nothing did.
function edgeOfMemory(cells, xs, ys, box) {
  const at = new Map(cells.map(cell => [`${xs.all.indexOf(cell.x)} ${ys.all.indexOf(cell.y)}`, cell]));
  const fits = cell => cell && cell.memory !== null;
  const dies = cell => cell && cell.memory === null && cell.out > 0;
  const lines = [];
  for (const cell of cells.filter(fits)) {
    const [i, k] = [xs.all.indexOf(cell.x), ys.all.indexOf(cell.y)];
    const {x, y, w, tall} = box(cell);
    if (dies(at.get(`${i + 1} ${k}`))) lines.push([x + w, y, x + w, y + tall]);
    if (dies(at.get(`${i} ${k + 1}`))) lines.push([x, y, x + w, y]);
  }
  return lines.map(([x1, y1, x2, y2]) => s('line', {class: 'edge', x1, y1, x2, y2}));
}

function memorySvg(name, cells, xs, ys, peak, limit, whole) {
  const [left, top, width, height] = [64, 24, whole - 76,
    Math.max(60, Math.min(34, 300 / ys.all.length) * ys.all.length)];
  const w = width / xs.all.length;
  const tall = height / ys.all.length;
  const xOf = value => left + xs.all.indexOf(value) * w;
  const yOf = value => top + height - (ys.all.indexOf(value) + 1) * tall;
  const box = cell => ({x: xOf(cell.x), y: yOf(cell.y), w, tall});
  const marks = cells.map(cell => memoryCell(name, cell, box(cell), xs, ys, peak, limit));
  return chartSvg(whole, top + height + 44, `${name}: peak memory by batch size and sequence length`,
    s('defs', null, s('pattern', {id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse',
      patternTransform: 'rotate(45)'},
      s('line', {id: 'hatch-line', x1: 0, x2: 0, y1: 0, y2: 6, 'stroke-width': 2, 'stroke-opacity': .55}))),
    s('g', {'aria-hidden': 'true'},
      ys.all.map(value => s('text', {x: left - 6, y: yOf(value) + tall / 2 + 4, 'text-anchor': 'end'},
        ys.binned ? `${value}+` : formatted(value))),
      xs.all.map(value => s('text', {x: xOf(value) + w / 2, y: top + height + 15, 'text-anchor': 'middle'},
        xs.binned ? `${value}+` : formatted(value))),
      s('text', {class: 'axis-title', x: left + width / 2, y: top + height + 34, 'text-anchor': 'middle'},
        'batch_size (samples)'),
      s('text', {class: 'axis-title', x: 6, y: top - 10}, 'model_max_length (tokens)')),
    marks, s('g', {'aria-hidden': 'true'}, edgeOfMemory(cells, xs, ys, box)));
}

function memoryCell(name, cell, box, xs, ys, peak, limit) {
  const step = cell.memory === null ? 0 : Math.min(8, Math.floor(9 * cell.memory / (peak || 1)));
  const fits = cell.memory !== null;
  const all = cell.rows.length;
  const text = fits ? brief(cell.memory) : cell.out > 0 ? 'OOM' : '–';
  const style = fits ? (step >= 5 ? 'on-dark' : 'on-light') : cell.out > 0 ? 'on-light bad' : 'on-light';
  const outcome =
    fits ? `${formatted(cell.memory)} GiB` : cell.out > 0 ? 'out of memory' : 'no memory figure';
  const share = fits && limit ? `, ${brief(100 * cell.memory / limit)} % of ${brief(limit)} GiB` : '';
  const lines = [`${name}: ${outcome}${share}`,
    `batch_size ${xs.label(cell.x)}, model_max_length ${ys.label(cell.y)}`,
    `${count(cell.valid)} of ${plural(all, 'measurement')} valid, ${count(cell.out)} out of memory`,
    fits && cell.span[1] > cell.span[0] ? `${formatted(cell.span[0])} to ${formatted(cell.span[1])} GiB`
      : ''];
  return mark(lines.filter(Boolean), cell.rows, {'data-group': cell.y,
    'data-place': xs.all.indexOf(cell.x)},
    s('rect', {class: `cell shape${fits ? '' : cell.out > 0 ? ' out' : ' none'}`, x: box.x, y: box.y,
      width: box.w, height: box.tall, rx: 3,
      style: fits ? `fill: var(--q${step})` : undefined}),
    cell.out > 0 ? s('rect', {class: 'hatch', x: box.x + 1, y: box.y + 1, width: box.w - 2,
      height: box.tall - 2, rx: 2}) : null,
    s('text', {class: style, x: box.x + box.w / 2, y: box.y + box.tall / 2 + 4}, text));
}
