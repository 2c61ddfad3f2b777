// What the reader looks at: the filters, the rows that pass them, and the figure that throughput and cost
// are reckoned in. Every part of the page draws itself again when this changes.

// Rates name their denominator: padding counts as tokens in the first two only.
const kRates = ['dataset_tokens_per_second', 'dataset_tokens_per_second_per_gpu', 'train_tokens_per_second',
  'train_tokens_per_gpu_per_second', 'train_samples_per_second'];

class View {
  constructor(data) {
    this.data = data;
    this.filters = new Map();  // column key -> {values: Set} | {min, max} | {contains}
    this.search = '';
    this.devices = '';  // of the charts: '' those most measured, '*' all
    this.compared = [];  // files of the results whose curves the reader compares
    this.watchers = [];
    this.comparedWatchers = [];
    this.plan = {};  // what the reader would train, as plan.js keeps it
    this.rates = kRates.filter(name => data.column(`measured.${name}`));
    this.rate = this.rates[0] ?? kRates[0];
    this.update();
  }

  watch(draw) { this.watchers.push(draw); }
  watchCompared(draw) { this.comparedWatchers.push(draw); }

  get comparedRows() {
    return this.compared.map(file => this.data.rowOfFile(file)).filter(row => row !== undefined);
  }

  isCompared(row) { return this.compared.includes(this.data.text('outcome.file', row)); }

  compare(rows) {
    this.compared = rows.map(row => this.data.text('outcome.file', row));
    for (const draw of this.comparedWatchers) draw();
  }

  // One more, in place of the first where there are too many, or one fewer.
  toggleCompared(row) {
    if (!this.data.curves?.has(row)) return;
    const others = this.comparedRows.filter(other => other !== row);
    this.compare(this.isCompared(row) ? others : [...others.slice(1 - kMostCompared), row]);
  }

  setFilter(key, filter) {
    if (filter) this.filters.set(key, filter);
    else this.filters.delete(key);
    this.changed();
  }

  clear() {
    this.filters.clear();
    this.search = '';
    this.changed();
  }

  changed() {
    this.update();
    for (const draw of this.watchers) draw();
  }

  get rateNumbers() { return this.data.column(`measured.${this.rate}`)?.numbers; }
  // What is shown of one figure of repeats is their median.
  configurations(rows) {
    return [...grouped(rows, row => this.data.text('derived.key', row)).values()];
  }

  // How far repeats of what is shown lie apart.
  get spread() {
    const rates = this.rateNumbers;
    if (this.spreadOf !== rates) {
      this.spreadOf = rates;
      this.spread_ = runSpread(this.configurations(this.validRows).map(repeats => repeats.map(row => rates[row])));
    }
    return this.spread_;
  }

  get filtered() { return this.filters.size > 0 || this.search !== ''; }

  update() {
    this.rows = this.passing();
    this.validRows = this.validOf(this.rows);
    this.spreadOf = undefined;
  }

  // Of `rows` those on the devices that the charts show.
  chartRows(rows) {
    const column = this.data.column('derived.devices');
    const shown = this.devicesShown;
    return [...rows].filter(row => this.devices === '*' || column.text(row) === shown);
  }

  get devicesShown() {
    if (this.devices === '*') return 'all devices';
    if (this.devices) return this.devices;
    const column = this.data.column('derived.devices');
    const counts = new Uint32Array(column.values.length);
    for (const row of this.validRows) ++counts[column.codes[row]];
    return column.values[counts.indexOf(extremes(counts)[1])] ?? column.values[1] ?? kHost;
  }

  // The rows that pass every filter but the one on column `except`.
  passing(except) {
    const tests = [...this.filters].filter(([key]) => key !== except)
      .map(([key, filter]) => rowTest(this.data.column(key), filter));
    if (this.search) tests.push(searchTest(this.data, this.search));
    const rows = new Uint32Array(this.data.rows);
    let kept = 0;
    for (let row = 0; row < this.data.rows; ++row) {
      if (tests.every(test => test(row))) rows[kept++] = row;
    }
    return rows.subarray(0, kept);
  }

  validOf(rows) {
    const status = this.data.column('outcome.status');
    const valid = status ? status.values.indexOf('valid') : -1;
    return rows.filter(row => status.codes[row] === valid);
  }
}

function rowTest(column, filter) {
  if (filter.values) {
    const passes = column.values.map(value => filter.values.has(value));
    return row => passes[column.codes[row]];
  }
  if (filter.contains !== undefined) return codeTest(column, filter.contains);
  const {min, max} = filter;
  return row => column.numbers[row] >= min && column.numbers[row] <= max;
}

// Whether the row's text has `needle` in it, case ignored: asked once per distinct text.
function codeTest(column, needle) {
  const wanted = needle.toLowerCase();
  const passes = column.values.map(value => value !== null && String(value).toLowerCase().includes(wanted));
  return row => passes[column.codes[row]];
}

function searchTest(data, needle) {
  const tests = data.columns.filter(c => !c.numeric && !c.constant && c.key !== 'outcome.command')
    .map(column => codeTest(column, needle));
  return row => tests.some(test => test(row));
}

// "batch_size: 4, 8", as chips and aria labels say it.
function filterText(column, filter) {
  if (filter.contains !== undefined) return `${column.label} contains “${filter.contains}”`;
  if (filter.values) {
    const names = [...filter.values].sort(ordered).map(value => value === null ? '(none)'
      : formatted(value));
    const shown = names.slice(0, 4).join(', ');
    return `${column.label}: ${shown}${names.length > 4 ? ` and ${names.length - 4} more` : ''}`;
  }
  const from = filter.min > -Infinity ? `${formatted(filter.min)} ≤ ` : '';
  const to = filter.max < Infinity ? ` ≤ ${formatted(filter.max)}` : '';
  return `${from}${column.label}${to}`;
}
