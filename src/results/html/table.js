// All measurements as a table of which only the rows in sight exist. Columns that have one value are
// folded away under it. Arrow keys move from row to row, Enter opens one.

const kRowHeight = 28;
const kTallest = 12e6;  // px; browsers draw nothing far beyond that
const kPrintedRows = 60;
const kUsualColumns = ['outcome.status', 'outcome.reason', 'outcome.evidence_of', 'outcome.sample',
  'derived.usd_per_million',
  'measured.dataset_tokens_per_second', 'measured.train_tokens_per_second',
    'measured.train_tokens_per_gpu_per_second', 'derived.peak_memory',
  'measured.gpu_memory_utilization_peak', 'measured.train_runtime', 'extra.mfu', 'outcome.message'];

class Table {
  constructor(view) {
    this.view = view;
    this.data = view.data;
    // {key, descending}, the first decides
    this.sorting = [{key: 'input.model_name', descending: false}, {key: `measured.${view.rate}`,
      descending: true}]
      .filter(({key}) => this.data.column(key));
    this.selection = null;  // {rows, title} behind a mark
    this.active = -1;
    this.visible = new Set(this.usualColumns());
    this.order = [];
    this.build();
    view.watch(() => { this.selection = null; this.refresh(); });
    view.watchCompared(() => this.paint());
    this.refresh();
  }

  varying() { return this.data.columns.filter(column => !column.constant); }
  usualColumns() {
    return this.varying().filter(column => kUsualColumns.includes(column.key)
      || column.group === 'input').map(column => column.key);
  }
  // Status, inputs, figures, message: whatever the reader comes for, in this order.
  columns() {
    const place = {outcome: 0, input: 1, derived: 2, measured: 3, extra: 4, environment: 5};
    const long = new Set(['outcome.message', 'outcome.evidence', 'outcome.log', 'outcome.command',
      'outcome.entity_id', 'outcome.file']);
    return this.varying().filter(column => this.visible.has(column.key))
      .sort((a, b) => long.has(a.key) - long.has(b.key) || place[a.group] - place[b.group]);
  }

  build() {
    this.body = h('tbody');
    this.table = h('table', {role: 'grid', tabindex: 0,
      'aria-label': 'Measurements: arrow keys move, Enter opens one',
      onkeydown: event => this.key(event)});
    this.scroller = h('div', {id: 'grid-scroll', onscroll: () => this.paint()}, this.table);
    byId('grid').replaceChildren(this.scroller);
    byId('table-controls').replaceChildren(
      h('button', {type: 'button', onclick: () => this.chooseColumns()}, 'Columns …'),
      h('button', {type: 'button', id: 'all-columns', 'aria-pressed': 'false', onclick: event =>
        this.toggleAll(event.target)}, 'All columns'),
      h('button', {type: 'button', onclick: () => this.download()}, 'Download as CSV'));
    new ResizeObserver(() => this.paint()).observe(this.scroller);
  }

  toggleAll(button) {
    const all = button.getAttribute('aria-pressed') === 'false';
    button.setAttribute('aria-pressed', all);
    this.visible = new Set(all ? this.varying().map(column => column.key) : this.usualColumns());
    this.refresh();
  }

  chooseColumns() {
    const boxes = [...Map.groupBy(this.varying(), column => column.group)].map(([group, columns]) =>
      h('fieldset', null, h('legend', null, group),
      columns.map(column => h('label', {style: 'display: flex'},
        h('input', {type: 'checkbox', value: column.key, checked: this.visible.has(column.key)}),
        column.label))));
    const dialog = openDialog('Columns of the table', ...boxes,
      h('footer', null, h('button', {type: 'button', class: 'active', onclick: () => {
      this.visible = new Set([...dialog.querySelectorAll('input:checked')].map(box => box.value));
      dialog.close();
      this.refresh();
    }}, 'Apply')));
  }

  // Click: this column alone; once more: the other way round. With Shift: after those that were chosen
  // before.
  sortBy(key, after) {
    const was = this.sorting.find(entry => entry.key === key);
    const entry = {key, descending: was ? !was.descending : this.data.column(key).numeric
      && !key.startsWith('input.')};
    this.sorting = after ? [...this.sorting.filter(other => other.key !== key), entry] : [entry];
    this.refresh();
    this.table.querySelector(`[data-sort="${CSS.escape(key)}"]`).focus();
  }

  refresh() {
    this.order = this.sorted(Uint32Array.from(this.selection?.rows ?? this.view.rows));
    this.active = -1;
    this.shown = this.columns();
    this.head();
    this.note();
    this.scroller.scrollTop = 0;
    this.paint();
  }

  sorted(rows) {
    const compare = this.sorting.map(({key, descending}) => {
      const ranks = sortRanks(this.data.column(key));
      const sign = descending ? -1 : 1;
      // Rows without a value come last in both directions.
      return (a, b) => {
        const [x, y] = [ranks[a], ranks[b]];
        if (x === y) return 0;
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return sign * (x - y);
      };
    });
    return compare.length === 0 ? rows : rows.sort((a, b) => {
      for (const by of compare) {
        const order = by(a, b);
        if (order !== 0) return order;
      }
      return a - b;
    });
  }

  head() {
    const sample = this.sample();
    const texts = column => column.exact && column.values.length <= 200 ? column.values.map(formatted)
      : sample.map(row => column.text(row));
    const width = column => 9 * Math.min(32, Math.max(column.exact ? 6 : 9,
      Math.min(30, column.label.length) / 2 + 3,
      ...column.label.split('_').map(part => part.length + 2),
        ...texts(column).map(text => text.length))) + 18;
    const cells = this.shown.map((column, i) => {
      const place = this.sorting.findIndex(entry => entry.key === column.key);
      const direction = place < 0 ? 'none' : this.sorting[place].descending ? 'descending' : 'ascending';
      const arrow = place < 0 ? '' : this.sorting[place].descending ? ' ↓' : ' ↑';
      return h('th', {scope: 'col', 'aria-sort': direction, 'aria-colindex': i + 1, class: column.numeric
        ? 'number' : undefined},
        h('button', {type: 'button', class: 'plain name', 'data-sort': column.key,
          title: `Sort by ${column.label}; with Shift after the other columns`,
          onclick: event => this.sortBy(column.key, event.shiftKey)}, column.label.replaceAll('_',
            '_\u200b') + arrow),
        h('div', {class: 'tools'}, h('span', {class: 'quiet'}, column.unit),
          h('button', {type: 'button', class: 'plain', 'aria-label': `Filter by ${column.label}`,
            title: 'Filter',
            onclick: () => openFilter(this.view, column)}, '▾')));
    });
    const widths = this.shown.map(width);
    this.table.style.width = `${widths.reduce((a, b) => a + b, 0)}px`;
    this.table.setAttribute('aria-rowcount', this.order.length + 1);
    this.table.setAttribute('aria-colcount', this.shown.length);
    this.table.replaceChildren(h('colgroup', null, widths.map(w => h('col', {style: `width: ${w}px`}))),
      h('thead', null, h('tr', {'aria-rowindex': 1}, cells)), this.body);
  }

  // Rows that column widths are taken from.
  sample() {
    const step = Math.max(1, Math.floor(this.order.length / 50));
    return Array.from({length: Math.min(50, this.order.length)}, (_, i) => this.order[i * step]);
  }

  note() {
    const note = byId('table-note');
    const folded = this.data.columns.filter(c => c.constant && c.exact).length;
    note.replaceChildren(this.selection
      ? `The ${plural(this.order.length, 'measurement')} behind “${this.selection.title}”. ` : '',
      this.selection ? h('button',
        {type: 'button', onclick: () => { this.selection = null; this.refresh(); }}, 'Show all again') :
        `${plural(this.order.length, 'row')}, ${this.shown.length} of ${this.varying().length} columns; ` +
        `${plural(folded, 'column')} with one value folded away below. ` +
        (this.data.columns.every(c => c.exact || c.group === 'derived') ? ''
          : 'Figures carry at most 7 significant digits here; the result files carry all.'));
  }

  // Draws the rows in sight, or `least` of them for print. Above and below them stand two empty rows of the
  // height of all that is not drawn. Where all rows together were too tall, the scroll bar stands for a
  // share.
  paint(least = 0) {
    const total = this.order.length;
    const stretch = Math.max(1, total * kRowHeight / kTallest);
    const inSight = Math.max(least, Math.ceil((this.scroller.clientHeight || 600) / kRowHeight) + 8);
    const last = Math.max(0, total - inSight);
    this.first = least > 0 ? 0 : Math.min(last,
      Math.max(0, Math.floor(this.scroller.scrollTop * stretch / kRowHeight) - 4));
    const rows = this.order.subarray(this.first, this.first + inSight);
    const spacer = n => h('tr', {class: 'spacer', 'aria-hidden': 'true'},
      h('td', {colspan: this.shown.length, style: `height: ${n}px`}));
    const above = this.first * kRowHeight / stretch;
    const below = least > 0 ? 0
      : Math.max(0, total * kRowHeight / stretch - above - rows.length * kRowHeight);
    this.body.replaceChildren(spacer(above), ...Array.from(rows, (row, i) => this.row(row, this.first +
      i)), spacer(below));
    if (least > 0 && total > rows.length) this.body.append(h('tr', null,
      h('td', {colspan: this.shown.length}, `… ${count(total - rows.length)} more rows`)));
  }

  row(row, index) {
    const status = this.data.text('outcome.status', row);
    return h('tr', {'aria-rowindex': index + 2, 'aria-selected': index === this.active ? 'true' : 'false',
      'data-row': row, 'data-compared': this.view.isCompared(row),
      id: `row-${index}`, onclick: event => {
        this.move(index);
        if (event.ctrlKey || event.metaKey) this.view.toggleCompared(row);
        else openDetails(this.data, row);
      }},
    this.shown.map(column => {
      const text = column.text(row);
      return h('td', {class: column.numeric ? 'number' : column.key === 'outcome.status'
        ? `status-${status}` : undefined,
        title: text.length > 24 ? text : undefined}, text);
    }));
  }

  move(index) {
    this.active = Math.max(0, Math.min(this.order.length - 1, index));
    const stretch = Math.max(1, this.order.length * kRowHeight / kTallest);
    const head = this.table.tHead.offsetHeight;
    const top = this.active * kRowHeight / stretch;
    const height = this.scroller.clientHeight - head - kRowHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + height) this.scroller.scrollTop = top - height;
    this.paint();
    this.table.setAttribute('aria-activedescendant', `row-${this.active}`);
  }

  key(event) {
    if (event.target !== this.table) return;
    const sight = Math.floor(this.scroller.clientHeight / kRowHeight) - 2;
    const to = {ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + sight,
      PageUp: this.active - sight,
      Home: 0, End: this.order.length - 1}[event.key];
    const acts = event.key === 'Enter' || event.key === ' ';
    if (to === undefined && !acts || this.order.length === 0) return;
    event.preventDefault();  // or Enter would press the button that the dialog focuses
    if (event.key === ' ')
      return this.active >= 0 && this.view.toggleCompared(this.order[this.active]);
    if (event.key === 'Enter') return this.active >= 0 && openDetails(this.data, this.order[this.active]);
    this.move(to);
  }

  showOnly(rows, title) {
    this.selection = {rows, title};
    this.refresh();
    byId('table').scrollIntoView();
    this.table.focus({preventScroll: true});
  }

  download() {
    const value = (column, row) => csvField(column.value(row) ?? '');
    const name = column => csvField(column.unit ? `${column.label} (${column.unit})` : column.label);
    const lines = [this.shown.map(name).join(','), ...Array.from(this.order,
      row => this.shown.map(column => value(column, row)).join(','))];
    const url = URL.createObjectURL(new Blob([lines.join('\r\n') + '\r\n'], {type: 'text/csv'}));
    h('a', {href: url, download: 'sftbench.csv'}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
}

// As append_csv_field() of the program: a text that a spreadsheet would take for a formula gets an
// apostrophe in front, unless it is a number.
function csvField(value) {
  const text = String(value);
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  const formula = /^[=+\-@\t\n\r\uff1d\uff0b\uff0d\uff20]/.test(text) && !number;
  if (!formula && !/[",\n\r]/.test(text)) return text;
  return `"${formula ? "'" : ''}${text.replaceAll('"', '""')}"`;
}

// Numbers that sort as the column's values do; NaN for none.
function sortRanks(column) {
  if (column.numeric) return column.numbers;
  const codes = column.values.map((value, code) => code).filter(code => column.values[code] !== null)
    .sort((a, b) => ordered(column.values[a], column.values[b]));
  const ranks = new Float64Array(column.values.length).fill(NaN);
  codes.forEach((code, rank) => { ranks[code] = rank; });
  return Float64Array.from(column.codes, code => ranks[code]);
}

function drawConstants(data) {
  const constants = data.columns.filter(column => column.constant && column.exact);
  const details = byId('constants');
  details.hidden = constants.length === 0;
  details.querySelector('summary').textContent =
    `${plural(constants.length, 'column')} with the same value in every row`;
  details.querySelector('div').replaceChildren(plainTable([{label: 'group'}, {label: 'column'},
    {label: 'value'}, {label: 'unit'}],
    constants.map(column => [column.group, column.label, column.text(0), column.unit])));
}
