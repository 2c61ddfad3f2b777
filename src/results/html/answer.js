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
        'where config/prices.yaml has ' +
        'one; what you enter counts on this page until it is closed.'));
  }
}

// What is answered for separately: a model, a way to tune it, and a length, unless the reader says otherwise.
const answerKey = (data, row, per = 'input.model_max_length') => [data.text('input.model_name', row),
  data.column('outcome.experiment')?.constant === false ? tuningName(data.text('outcome.experiment', row)) : '',
  per === 'input.model_name' || data.column(per)?.constant !== false ? ''
    : per === 'input.model_max_length' ? `${data.text(per, row)} tokens`
      : `${per.split('.')[1]} ${data.text(per, row) || 'none'}`]
  .filter(Boolean).join(' · ');

function drawAnswer(view, prices) {
  const {data} = view;
  const varied = data.column('outcome.experiment')?.constant === false;
  const state = {per: 'input.model_max_length', all: false};
  byId('answer-controls').replaceChildren(rateChoice(view), choice('One answer per', [
    ['input.model_max_length', 'model and sequence length'], ['input.model_name', 'model'],
      ['derived.devices', 'model and devices'],
    ['input.gpu_model', 'model and GPU product']], state.per, value => { state.per = value; draw(); }));
  prices.draw(byId('prices').querySelector('div'));

  const draw = () => {
    const groups = [...grouped(view.rows, row => answerKey(data, row, state.per))]
      .sort((a, b) => ordered(a[0], b[0]));
    const shown = state.all ? groups : groups.slice(0, kFewAnswers);
    byId('answer-lead').replaceChildren(...leadAnswers(view, prices, groups));
    byId('answer-note').textContent =
      `Cost is in USD per million ${prices.counted} where the device has a price, else the fastest per device ` +
      `is named, by ${view.rate}. Start-up is not in it; of repeats it is the median. A lead is separable ` +
      `when its 95 % interval is above 1. ` +
      (varied ? 'Ways to tune are answered for separately: they do not do the same. ' : '') +
      (state.per === 'input.model_max_length' ? ''
        : 'A shorter sequence length cuts longer entries off: ask per sequence length where that matters.');
    byId('answer-table').replaceChildren(answerTable(view, prices, shown),
      groups.length > shown.length ? h('p', {class: 'button-row'},
        h('button', {type: 'button', onclick: () => {
          state.all = true;
          byId('answer-table').dataset.whole = '';
          draw();
        }},
        `Show the other ${groups.length - shown.length}`)) : '');
  };
  view.watch(() => { prices.update(); draw(); });
  draw();
}

// What ran, with the medians of repeats.
function configurationsOf(view, prices, rows) {
  const {data} = view;
  const valid = rows.filter(row => data.text('outcome.status', row) === 'valid'
    && view.rateNumbers?.[row] > 0);
  return view.configurations(valid).map(repeats => ({
    repeats,
    memory: median(repeats.map(row => data.number('derived.peak_memory', row))),
    cost: median(repeats.map(row => prices.column.numbers_[row])),
    rate: median(repeats.map(row => view.rateNumbers[row])),
    perDevice: median(repeats.map(row => ratePerDevice(view, row))),
    sample: sampled(data, repeats, repeats.map(row => ratePerDevice(view, row)))}));
}

// The configurations of a group, the best first: those with a price by cost, the others by rate.
function contestsOf(view, prices, rows) {
  const all = configurationsOf(view, prices, rows);
  const ranked = (entries, better) => {
    if (entries.length === 0) return [];
    const [best, second] = entries.sort(better);
    const ratio = second && (Number.isNaN(best.cost) ? best.perDevice / second.perDevice
      : second.cost / best.cost);
    const interval = second && ratioInterval(best.sample, second.sample, view.spread);
    // A price does not vary.
    const shift = interval ? ratio / interval.ratio : 1;
    return [{best, second, ratio, low: interval && interval.low * shift, high: interval && interval.high * shift,
      own: ownInterval(best.sample, view.spread), tried: entries.length}];
  };
  return [...ranked(all.filter(c => !Number.isNaN(c.cost)), (a, b) => a.cost - b.cost),
    ...ranked(all.filter(c => Number.isNaN(c.cost)), (a, b) => b.perDevice - a.perDevice)];
}

// "ratio 1.08 (1.02 to 1.14): separable". Digits show a ratio that is above 1.
function verdictText({second, ratio, low, high}) {
  if (!second) return 'nothing else ran';
  if (!low) return `ratio ${brief(ratio)}, noise unknown: measured once`;
  const shown = value => low > 1 && brief(low) === '1' ? String(Number(value.toPrecision(6))) : brief(value);
  return `ratio ${shown(ratio)} (${shown(low)} to ${shown(high)}): ${low > 1 ? '' : 'not '}separable`;
}

const valueText = (prices, contest, {best} = contest) => Number.isNaN(best.cost)
  ? `${brief(best.perDevice)} ${prices.counted} a second and device`
  : `${brief(best.cost)} USD per million ${prices.counted}`;

// In front of every control, the answers with the most measurements behind them.
function leadAnswers(view, prices, groups) {
  const {data} = view;
  return [...groups].sort((a, b) => b[1].length - a[1].length).flatMap(([name, rows]) =>
    contestsOf(view, prices, rows).slice(0, 1).map(contest => ({name, contest}))).slice(0, 3)
    .map(({name, contest}) => {
      const {best, second, own} = contest;
      const value = Number.isNaN(best.cost) ? best.perDevice : best.cost;
      return h('article', {class: 'lead', 'data-lead': name}, h('h3', null, name),
        h('p', {class: 'figure'}, h('strong', null, valueText(prices, contest))),
        h('p', null, answerOnDevices(data, best.repeats[0])),
        h('p', {class: 'quiet'}, own ? `95 %: ${brief(value * own.low)} to ${brief(value * own.high)}, n = ` +
          `${best.repeats.length}. ` : `n = ${best.repeats.length}, noise unknown. `,
          second ? `Before the next one, ${answerConfiguration(data, second.repeats[0])}: ${verdictText(contest)}.`
            : 'Nothing else ran.'),
        doubtful(data, best.repeats));
    });
}

function doubtful(data, repeats) {
  const doubt = doubtText(data, repeats);
  return doubt ? h('p', {class: 'doubt'}, doubt) : null;
}

function answerTable(view, prices, groups) {
  const unit = view.data.column(`measured.${view.rate}`)?.unit || view.rate;
  const heads = [['Model'], ['Configuration'], [`USD per million ${prices.counted}`, 1], [unit, 1],
    ['per device', 1], ['n', 1], ['Before the next one'], ['Peak GiB', 1], [''], ['Ran', 1]];
  return h('table', null,
    h('thead', null, h('tr', null,
      heads.map(([label, numeric]) => h('th', {scope: 'col', class: numeric && 'number'}, label)))),
    h('tbody', null, groups.flatMap(([name, rows]) => answerRows(view, prices, name, rows, heads))));
}

// The cheapest with a price, and the fastest per device without one: either may be missing.
function answerRows(view, prices, name, rows, heads) {
  const {data} = view;
  const contests = contestsOf(view, prices, rows);
  const ran = rows.filter(row => data.text('outcome.status', row) === 'valid').length;
  const out = rows.filter(row => kOutOfMemory.has(data.text('outcome.reason', row))).length;
  const answers = Math.max(1, contests.length);
  const labels = heads.map(([label]) => label);
  const counts = h('td', {class: 'number count', rowspan: answers, 'data-label': labels[9]},
    `${count(ran)} of ${count(rows.length)}`, out > 0 ? h('p', {class: 'quiet'}, `${count(out)} out of memory`) : null);
  const cell = (place, kind, ...content) => h('td', {class: kind, 'data-label': labels[place]}, content);
  if (contests.length === 0) {
    return [h('tr', null, h('th', {scope: 'row'}, name),
      h('td', {colspan: 8, class: 'status-failed'}, 'no configuration ran'), counts)];
  }
  return contests.map((contest, place) => {
    const {repeats, cost, rate, perDevice, memory} = contest.best;
    return h('tr', {'data-key': data.text('derived.key', repeats[0])},
      place === 0 ? h('th', {scope: 'rowgroup', rowspan: answers}, name) : null,
      cell(1, 'wrap', answerOnDevices(data, repeats[0]), doubtful(data, repeats)),
      Number.isNaN(cost) ? cell(2, 'number quiet', 'no price') : cell(2, 'number', h('strong', null, brief(cost))),
      cell(3, 'number', brief(rate)), cell(4, 'number', brief(perDevice)), cell(5, 'number', count(repeats.length)),
      cell(6, 'verdict', verdictText(contest)),
      cell(7, 'number', brief(memory)),
      h('td', null, h('button', {type: 'button', 'aria-label': `Details of the configuration for ${name}`,
        onclick: () => openDetails(data, repeats[0])}, 'Details')),
      place === 0 ? counts : null);
  });
}

const answerOnDevices = (data, row) => `${answerConfiguration(data, row) || 'the only configuration'}, on ` +
  data.text('derived.devices', row);

const answerConfiguration = (data, row) => data.columns
  .filter(c => c.group === 'input' && !c.constant && !/^(model_name|gpu_model|number_gpus)$/.test(c.label)
    && c.value(row) !== null)
  .map(c => `${c.label} ${c.text(row)}`).join(', ');
