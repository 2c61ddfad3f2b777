// The data block, decoded: columns of numbers or of texts that rows refer to by codes, and columns that
// are derived from them. A row is a measurement; its place in every column is its number.

const kStores = {u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array};
const kGiB = 2 ** 30;
const kHost = 'host without GPUs';
const kUnits = {__proto__: null, model_max_length: 'tokens', batch_size: 'samples', stop_after_seconds: 's'};

// "32 GiB" where the file says bytes: a name, a unit and the factor between them.
function displayed(head) {
  const {name} = head;
  if (/_bytes$/.test(name)) return {label: name.replace(/_bytes$/, ''), unit: 'GiB', factor: 1 / kGiB};
  if (/_(seconds|s)$/.test(name) && head.group !== 'input') return {label: name, unit: 's', factor: 1};
  return {label: name, unit: head.unit ?? kUnits[name] ?? '', factor: 1};
}

class Column {
  // head: as report_html.cpp describes the column; array: its rows, absent where all rows have one value.
  constructor(head, array, rows) {
    Object.assign(this, displayed(head));
    this.key = `${head.group}.${head.name}`;
    this.group = head.group;
    this.numeric = head.numeric;
    this.exact = head.store !== 'f32';
    this.constant = head.store === 'one';
    if (!this.exact) {
      this.numbers_ = this.factor === 1 ? array : array.map(x => x * this.factor);
      return;
    }
    this.values = [null, ...head.values];
    if (this.factor !== 1) this.values = this.values.map(v => v === null ? null : v * this.factor);
    this.codes = array ?? new Uint8Array(rows).fill(1);
  }

  // One number per row, NaN where there is none.
  get numbers() {
    if (!this.numbers_) {
      const table = Float64Array.from(this.values, v => typeof v === 'number' ? v : NaN);
      this.numbers_ = Float64Array.from(this.codes, code => table[code]);
    }
    return this.numbers_;
  }

  value(row) {
    if (this.exact) return this.values[this.codes[row]];
    return Number.isNaN(this.numbers_[row]) ? null : this.numbers_[row];
  }

  text(row) { return formatted(this.value(row)); }
}

// A column that the page computes; `numbers` may be replaced when what it is computed from changes.
function derivedColumn(name, unit, numbers) {
  return Object.assign(Object.create(Column.prototype),
    {key: `derived.${name}`, group: 'derived', label: name, unit, factor: 1, numeric: true, exact: false,
      constant: numbers.every(Number.isNaN), numbers_: numbers});
}

function derivedTexts(name, texts) {
  const values = [null, ...new Set(texts)];
  const codeOf = new Map(values.map((value, code) => [value, code]));
  return Object.assign(Object.create(Column.prototype),
    {key: `derived.${name}`, group: 'derived', label: name, unit: '', factor: 1, numeric: false,
      exact: true,
      constant: values.length <= 2, values, codes: Uint32Array.from(texts, text => codeOf.get(text))});
}

// Six significant digits; nothing for no value.
function formatted(value) {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(6)));
}

// For axes, cells and marks: three digits or more, from 10,000 on as k, M, G.
function brief(value) {
  if (!Number.isFinite(value)) return '–';
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (Math.abs(value) >= size) {
      const scale = letter === 'k' ? 1e3 : size;
      return Number((value / scale).toPrecision(3)) + letter;
    }
  }
  return String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
}

const count = new Intl.NumberFormat('en').format;
const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

async function decoded(base64) {
  const packed = atob(base64);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; ++i) bytes[i] = packed.charCodeAt(i);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(plain).arrayBuffer();
}

class Data {
  constructor(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    this.head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    this.rows = this.head.rows;
    this.columns = this.head.columns.map(head =>
      new Column(head, head.offset === undefined ? null
        : new kStores[head.store](buffer, 4 + size + head.offset, this.rows), this.rows));
    this.curves = this.head.curves && new Curves(buffer, 4 + size, this.head.curves, this.rows);
    this.byKey = new Map(this.columns.map(column => [column.key, column]));
    const rows = Array.from({length: this.rows}, (_, row) => row);
    this.add(derivedColumn('peak_memory', 'GiB', this.peakMemory()));
    this.add(derivedTexts('key', rows.map(row =>
      this.text('outcome.file', row).replace(/(\.\d+)?\.json$/, ''))));
    this.add(derivedTexts('devices', rows.map(row => this.devicesText(row))));
  }

  add(column) {
    this.columns.push(column);
    this.byKey.set(column.key, column);
  }

  // undefined when there is no such file.
  rowOfFile(file) {
    if (!this.rowOfFile_) {
      this.rowOfFile_ = new Map(Array.from({length: this.rows},
        (_, row) => [this.text('outcome.file', row), row]));
    }
    return this.rowOfFile_.get(file);
  }

  // undefined when no measurement has it.
  column(key) { return this.byKey.get(key); }
  text(key, row) { return this.byKey.get(key)?.text(row) ?? ''; }
  number(key, row) { return this.byKey.get(key)?.numbers[row] ?? NaN; }

  // What the run was rented on: the GPU product, or the bare host.
  device(row) {
    if (!(this.number('input.number_gpus', row) > 0)) return kHost;
    return this.text('input.gpu_model', row) || this.text('environment.gpus', row) || 'unknown GPU';
  }

  deviceCount(row) { return Math.max(1, this.number('input.number_gpus', row) || 0); }

  devicesText(row) {
    const device = this.device(row);
    return device === kHost ? kHost : `${this.deviceCount(row)} × ${device}`;
  }

  // What the fullest rank needed: of a GPU what its allocator took, without GPUs the process's memory.
  peakMemory() {
    const device = this.byKey.get('extra.device_peak_reserved_bytes')?.numbers;
    const host = this.byKey.get('extra.host_peak_rss_bytes')?.numbers;
    return Float64Array.from({length: this.rows}, (_, row) =>
      device?.[row] > 0 ? device[row] : host?.[row] ?? NaN);
  }
}

// Distinct values among `rows`, numbers by size, texts by alphabet.
function distinct(column, rows) {
  const found = new Set();
  if (column.exact) {
    const seen = new Uint8Array(column.values.length);
    for (const row of rows) seen[column.codes[row]] = 1;
    for (let code = 1; code < seen.length; ++code) if (seen[code]) found.add(column.values[code]);
  } else {
    for (const row of rows) if (!Number.isNaN(column.numbers[row])) found.add(column.numbers[row]);
  }
  return [...found].sort(ordered);
}

function ordered(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', {numeric: true});
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// What makes figures of these rows doubtful; empty: nothing. The share is kBusyShare of measured_properties.h.
function doubtText(data, rows) {
  if (rows.some(row => data.text('outcome.evidence_of', row) === 'simulation')) return 'simulated: nothing was measured';
  const share = extremes(rows.map(row => data.number('extra.run_queue_wait_share', row)))[1];
  return share >= .1 ? `the machine was busy (${brief(100 * share)} % waited): measure again when it is idle` : '';
}

// [least, greatest], of any number of numbers (spreading them into Math.max() has a limit); NaN is passed
// over.
function extremes(numbers) {
  let [least, greatest] = [Infinity, -Infinity];
  for (const number of numbers) {
    if (number < least) least = number;
    if (number > greatest) greatest = number;
  }
  return [least, greatest];
}

function grouped(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return groups;
}
