// The question on top: which configuration trains a model at the least cost. Cost is the price of the
// devices over the rate; without a price, the rate per device stands for it.

const kFewAnswers = 24;

// Per device and second, whichever rate is chosen.
function ratePerDevice(view, row) {
  const rate = view.rateNumbers?.[row] ?? NaN;
  return /_per_gpu/.test(view.rate) ? rate : rate / view.data.deviceCount(row);
}

class Prices {
  constructor(view) {
    this.view = view;
    const {data} = view;
    const known = data.head.usd_per_gpu_hour;
    this.devices = Array.from({length: data.rows}, (_, row) => data.device(row));
    this.usdPerHour = new Map(
      [...new Set(this.devices)].sort(ordered).map(device => [device, known[device] ?? NaN]));
    this.column = derivedColumn('usd_per_million', '', new Float64Array(data.rows));
    data.add(this.column);
    this.update();
  }

  update() {
    const {view} = this;
    this.column.unit = `USD/M ${this.counted}`;
    this.column.numbers_ = Float64Array.from(this.devices, (device, row) =>
      this.usdPerHour.get(device) / (ratePerDevice(view, row) * 3600) * 1e6);
    this.column.constant = this.column.numbers_.every(Number.isNaN);
  }

  // What is paid for.
  get counted() {
    if (/samples/.test(this.view.rate)) return 'samples';
    return /^dataset/.test(this.view.rate) ? 'dataset tokens' : 'padded tokens';
  }

  draw(container) {
    const {view} = this;
    const rows = [...this.usdPerHour].map(([device, price]) => h('label', null, device,
      h('input', {type: 'number', min: 0, step: 'any', value: Number.isNaN(price) ? undefined : price,
        placeholder: 'USD/h',
        'data-device': device, onchange: event => {
          this.usdPerHour.set(device, event.target.value === '' ? NaN : Number(event.target.value));
          view.changed();
        }}), 'USD/h'));
    container.replaceChildren(h('div', {class: 'controls'}, rows),
      h('p', {class: 'note'}, 'For one device (a whole machine without GPUs) and one hour. Filled in ' +
        'where config/gpus.yaml has a ' +
        'price; what you enter counts on this page until it is closed.'));
  }
}

function drawAnswer(view, prices) {
  const {data} = view;
  const varied = data.column('outcome.experiment')?.constant === false;
  const state = {per: 'input.model_name', all: false};
  byId('answer-controls').replaceChildren(rateChoice(view), choice('One answer per', [
    ['input.model_name', 'model'], ['input.model_max_length', 'model and sequence length'],
      ['derived.devices', 'model and devices'],
    ['input.gpu_model', 'model and GPU product']], state.per, value => { state.per = value; draw(); }));
  prices.draw(byId('prices').querySelector('div'));

  const key = row => [data.text('input.model_name', row),
    varied ? tuningName(data.text('outcome.experiment', row)) : '',
    state.per === 'input.model_name' ? ''
      : `${state.per.split('.')[1]} ${data.text(state.per, row) || 'none'}`]
    .filter(Boolean).join(' · ');
  const draw = () => {
    const groups = [...grouped(view.rows, key)].sort((a, b) => ordered(a[0], b[0]));
    const shown = state.all ? groups : groups.slice(0, kFewAnswers);
    byId('answer-note').textContent =
      `The cheapest configuration that ran, by ${view.rate}. Cost is in USD per million ` +
      `${prices.counted} where the device has a price, else the fastest per device is named. Start-up ` +
        `is not in it; of repeats it is the median. ` +
      (varied ? 'Ways to tune are answered for separately: they do not do the same. ' : '') +
      (state.per === 'input.model_max_length' ? ''
        : 'A shorter sequence length cuts longer entries off: ask per sequence length where that matters.');
    byId('answer-table').replaceChildren(answerTable(view, prices, shown),
      groups.length > shown.length ? h('p', {class: 'button-row'},
        h('button', {type: 'button', onclick: () => { state.all = true; draw(); }},
        `Show the other ${groups.length - shown.length}`)) : '');
  };
  view.watch(() => { prices.update(); draw(); });
  draw();
}

function answerTable(view, prices, groups) {
  const unit = view.data.column(`measured.${view.rate}`)?.unit || view.rate;
  const heads = [['Model'], [`USD per million ${prices.counted}`, 1], [unit, 1], ['per device', 1],
    ['Peak GiB', 1], ['Devices'], ['Configuration'],
    [''], ['Tried', 1], ['Ran', 1], ['Out of memory', 1]];
  return h('table', null,
    h('thead', null, h('tr', null,
      heads.map(([label, numeric]) => h('th', {scope: 'col', class: numeric && 'number'}, label)))),
    h('tbody', null, groups.flatMap(([name, rows]) => answerRows(view, prices, name, rows))));
}

// The cheapest with a price, and the fastest per device without one: either may be missing.
function answerRows(view, prices, name, rows) {
  const {data} = view;
  const valid = rows.filter(row => data.text('outcome.status', row) === 'valid'
    && view.rateNumbers?.[row] > 0);
  const configurations = [...grouped(valid, row => data.text('derived.key', row)).values()].map(repeats => ({
    repeats,
    cost: median(repeats.map(row => prices.column.numbers_[row])),
    rate: median(repeats.map(row => view.rateNumbers[row])),
    perDevice: median(repeats.map(row => ratePerDevice(view, row)))}));
  const best = (entries, better) =>
    entries.length === 0 ? [] : [entries.reduce((a, b) => better(b, a) ? b : a)];
  const priced = best(configurations.filter(c => !Number.isNaN(c.cost)), (a, b) => a.cost < b.cost);
  const unpriced =
    best(configurations.filter(c => Number.isNaN(c.cost)), (a, b) => a.perDevice > b.perDevice);
  const out = rows.filter(row => kOutOfMemory.has(data.text('outcome.reason', row))).length;
  const answers = Math.max(1, priced.length + unpriced.length);
  const counts =
    [rows.length, valid.length, out].map(n => h('td', {class: 'number', rowspan: answers}, count(n)));
  const number = text => h('td', {class: 'number'}, text);
  if (configurations.length === 0) {
    return [h('tr', null, h('th', {scope: 'row'}, name),
      h('td', {colspan: 7, class: 'status-failed'}, 'no configuration ran'), counts)];
  }
  return [...priced, ...unpriced].map(({repeats, cost, rate, perDevice}, place) =>
    h('tr', {'data-key': data.text('derived.key', repeats[0])},
    place === 0 ? h('th', {scope: 'rowgroup', rowspan: answers}, name) : null,
    Number.isNaN(cost) ? h('td', {class: 'number quiet'}, 'no price')
      : number(h('strong', null, brief(cost))),
    number(brief(rate)), number(brief(perDevice)),
    number(brief(data.number('derived.peak_memory', repeats[0]))),
    h('td', null, data.text('derived.devices', repeats[0])),
    h('td', {class: 'wrap'}, answerConfiguration(data, repeats[0]) +
      (repeats.length > 1 ? ` (${repeats.length} repeats)` : '')),
    h('td', null, h('button', {type: 'button', 'aria-label': `Details of the configuration for ${name}`,
      onclick: () => openDetails(data, repeats[0])}, 'Details')),
    place === 0 ? counts : null));
}

const answerConfiguration = (data, row) => data.columns
  .filter(c => c.group === 'input' && !c.constant && !/^(model_name|gpu_model|number_gpus)$/.test(c.label)
    && c.value(row) !== null)
  .map(c => `${c.label} ${c.text(row)}`).join(', ');
