// The reader's own data: which measured configuration trains them by a deadline and within a budget. Work
// over rate is hours, and hours at the prices of the answer are cost.

const kAnyLength = 'any';
const kPlanChoices = {
  model: {label: 'Model', key: 'input.model_name', named: text => text},
  tuning: {label: 'Way to tune', key: 'outcome.experiment', named: text => tuningName(text)},
  length: {label: 'Sequence length', key: 'input.model_max_length', named: text => `${text} tokens`},
};
// An optional field that is empty sets no limit; the tokens are then those of the sequence length.
const kPlanFields = {
  entries: {label: 'Entries', start: '50000'},
  tokens: {label: 'Tokens of an entry', unit: 'on average', optional: true},
  epochs: {label: 'Epochs', start: '1'},
  hours: {label: 'Deadline', unit: 'hours', optional: true},
  usd: {label: 'Budget', unit: 'USD', optional: true},
  memory: {label: 'Most memory of a device', unit: '%', optional: true, most: 100},
};
// Why a configuration that runs is none of the answers. A limit that is undefined is never exceeded.
const kPlanLimits = [
  [(c, limits) => c.hours > limits.hours, 'ends after the deadline', 'end after the deadline'],
  [(c, limits) => c.usd > limits.usd, 'costs more than the budget', 'cost more than the budget'],
  [(c, limits) => limits.usd && Number.isNaN(c.usd), 'has no price, so the budget cannot be kept',
    'have no price, so the budget cannot be kept'],
  [(c, limits) => c.memoryPercent > limits.memory, 'needs more of the memory', 'need more of the memory'],
  [(c, limits) => limits.memory && Number.isNaN(c.memoryPercent), 'has no known share of its memory',
    'have no known share of their memory'],
];

function drawPlan(view, prices) {
  const {plan} = view;
  plan.texts = {...Object.fromEntries(Object.entries(kPlanFields).map(([name, field]) => [name, field.start ?? ''])),
    ...plan.texts};
  plan.numbers ??= {};  // the last that were right
  plan.chosen = {...plan.shown, ...plan.chosen};  // a default that stood on the page stays there
  const draw = () => {
    const {rows, length} = plannedRows(view, plan, selects);
    byId('plan-tokens').placeholder = length > 0 ? formatted(length) : '';
    const work = {...plan.numbers, tokens: plan.numbers.tokens ?? length};
    byId('plan-note').textContent = planNote(view, prices);
    drawPlanned(view, plan.numbers, work, planned(view, prices, rows, work));
  };
  const selects = Object.fromEntries(Object.entries(kPlanChoices).map(([name, {label}]) =>
    [name, choice(label, [], '', value => { plan.chosen[name] = value; draw(); })]));
  for (const [name, label] of Object.entries(selects)) label.querySelector('select').id = `plan-${name}`;
  byId('plan-form').replaceChildren(h('div', {class: 'controls'}, Object.values(selects),
    Object.keys(kPlanFields).map(name => planField(plan, name, draw))));
  byId('plan-form').onsubmit = event => event.preventDefault();
  view.watch(draw);
  draw();
}

// What is wrong is said beside the field, and everything else stays as it was.
function planField(plan, name, draw) {
  const {label, unit, optional, most = Number.MAX_VALUE} = kPlanFields[name];
  const wrong = h('span', {class: 'status-failed', id: `plan-${name}-wrong`, role: 'status'});
  const input = h('input', {id: `plan-${name}`, type: 'text', inputmode: 'decimal', autocomplete: 'off', size: 8,
    value: plan.texts[name], 'aria-describedby': wrong.id, oninput: () => {
      plan.texts[name] = input.value;
      if (read()) draw();
    }});
  const read = () => {
    const text = input.value.trim();
    const empty = text === '' && optional;
    const right = empty || Number(text) > 0 && Number(text) <= most;
    input.setAttribute('aria-invalid', !right);
    wrong.textContent = right ? ''
      : `needs a number above 0${most < Number.MAX_VALUE ? ` and up to ${most}` : ''}`;
    if (right) plan.numbers[name] = empty ? undefined : Number(text);
    return right;
  };
  read();
  return h('span', {class: 'field'}, h('label', null, label, input, unit), wrong);
}

// The rows that the choices leave of those that are shown, and their length, the usual one for any. A choice
// between one value is none, and hides. The default is what most valid measurements have.
function plannedRows(view, plan, selects) {
  const {data} = view;
  plan.shown = {};
  let [rows, length] = [[...view.rows], NaN];
  for (const [name, {key, named}] of Object.entries(kPlanChoices)) {
    const groups = grouped(rows, row => data.text(key, row));
    const values = [...groups.keys()].sort(ordered);
    const valid = new Map(values.map(value => [value, view.validOf(groups.get(value)).length]));
    const most = values.reduce((a, b) => valid.get(b) > valid.get(a) ? b : a, values[0]);
    const names = values.map(value => value ? named(value) : '(none)');
    const distinctNames = new Set(names).size === values.length;
    const options = values.map((value, i) => [value, distinctNames ? names[i] : value]);
    if (name === 'length') options.push([kAnyLength, 'any']);
    const wanted = plan.chosen[name];
    plan.shown[name] = options.some(([value]) => value === wanted) ? wanted : most;
    selects[name].hidden = values.length < 2;
    selects[name].querySelector('select').replaceChildren(...options.map(([value, text]) =>
      h('option', {value, selected: value === plan.shown[name]}, text)));
    const anyLength = plan.shown[name] === kAnyLength;
    length = data.number(key, groups.get(anyLength ? most : plan.shown[name])?.[0]);
    if (!anyLength) rows = groups.get(plan.shown[name]) ?? [];
  }
  return {rows, length};
}

// As many as the rate counts. Every entry is padded to its sequence length at most; where rows are not padded or
// hold several entries, they stay as full as they were.
function unitsOf(data, counted, row, {entries, tokens, epochs}) {
  if (counted === 'samples') return entries * epochs;
  if (counted === 'dataset tokens') return entries * tokens * epochs;
  const length = data.number('input.model_max_length', row);
  if (!/^(none|packed)$/.test(data.text('input.padding', row))) return entries * length * epochs;
  const positions = data.number('extra.padded_tokens', row) / data.number('extra.dataset_tokens', row);
  return entries * tokens * positions * epochs;
}

// NaN where no counter was read.
function gpuWatts(data, row) {
  const watts = measuredJoules(data, row) / data.number('measured.train_runtime', row);
  return watts > 0 ? watts : NaN;
}

// {able: what trains this work, others: [[count, one, many]] of what does not, total}.
function planned(view, prices, rows, work) {
  const {data} = view;
  const keyOf = row => data.text('derived.key', row);
  const ran = configurationsOf(view, prices, rows);
  const withRate = new Set(ran.map(({repeats}) => keyOf(repeats[0])));
  const all = [...grouped(rows, keyOf)];
  const rest = all.filter(([key]) => !withRate.has(key)).map(([, members]) => members);
  const isOut = members => members.some(row => kOutOfMemory.has(data.text('outcome.reason', row)));
  const out = rest.filter(isOut).length;
  const unrated = rest.filter(members => !isOut(members) && view.validOf(members).length > 0).length;
  const cuts = ({repeats}) => data.number('input.model_max_length', repeats[0]) < work.tokens;
  const able = ran.filter(entry => !cuts(entry)).map(entry => plannedRun(data, prices, entry, work))
    .filter(entry => entry.hours > 0);
  return {able, total: all.length, others: [
    [ran.filter(cuts).length, 'has a sequence length below the tokens of an entry',
      'have a sequence length below the tokens of an entry'],
    [out, 'ran out of memory', 'ran out of memory'],
    [unrated, `has no ${view.rate}`, `have no ${view.rate}`],
    [rest.length - out - unrated, 'is invalid or failed', 'are invalid or failed']]};
}

function plannedRun(data, prices, {repeats, cost, perDevice}, work) {
  const [row] = repeats;
  const units = unitsOf(data, prices.counted, row, work);
  const hours = units / (perDevice * data.deviceCount(row)) / 3600;
  const peak = median(repeats.map(repeat => data.number('derived.peak_memory', repeat)));
  return {repeats, row, hours, usd: cost * units / 1e6, kwh: hours / 1000 * median(repeats.map(r => gpuWatts(data, r))),
    peak, memoryPercent: 100 * peak / (memoryLimit(data, repeats) ?? NaN)};
}

// No other one is both faster and cheaper: from the fastest to the cheapest. One without a price is on it as the
// fastest of all, or not.
function planFront(entries) {
  const places = entries.map((_, place) => place);
  return paretoFront(places, entries.map(({usd}) => Number.isNaN(usd) ? 0 : 1 / usd), entries.map(({hours}) => hours))
    .map(place => entries[place]);
}

const usdText = usd => Number.isNaN(usd) ? 'no price' : `${brief(usd)} USD`;

function drawPlanned(view, limits, work, {able, others, total}) {
  const kept = able.filter(entry => !kPlanLimits.some(([exceeds]) => exceeds(entry, limits)));
  const nearest = kept.length === 0;
  const front = planFront(nearest ? able : kept);
  const fastest = front[0];
  const cheapest = Number.isNaN(front.at(-1)?.usd) ? undefined : front.at(-1);
  const takes = (name, {hours, usd}) => `The ${name} takes ${brief(hours)} h and ` +
    `${Number.isNaN(usd) ? 'has' : 'costs'} ${usdText(usd)}.`;
  const answers = !fastest ? [] : fastest === cheapest ? [['cheapest and fastest', fastest]]
    : [...(cheapest ? [['cheapest', cheapest]] : []), ['fastest', fastest]];
  byId('plan-answer').textContent = total === 0 ? 'No measurement is shown.' : [workText(work),
    able.length === 0 ? 'No configuration trained such entries.'
      : nearest ? `No configuration keeps the limits of ${limitsText(limits)}.`
        : `${count(kept.length)} of ${plural(total, 'configuration')} ${kept.length === 1 ? 'trains' : 'train'} ` +
          `them${limitsText(limits) && ` within ${limitsText(limits)}`}.`,
    ...answers.map(([name, entry]) => takes(name, entry))].join(' ');
  byId('plan-leads').replaceChildren(...answers.map(([name, entry]) => planLead(view, nearest, name, entry)));
  const reasons = [...kPlanLimits.map(([exceeds, ...texts]) =>
    [able.filter(entry => exceeds(entry, limits)).length, ...texts]), ...others].filter(([n]) => n > 0);
  const named = reasons.reduce((sum, [n]) => sum + n, 0);
  byId('plan-ruled-out').textContent = reasons.length === 0 ? ''
    : `Ruled out: ${reasons.map(([n, one, many]) => plural(n, one, many)).join(', ')}.` +
      (named > total - kept.length ? ' Some for several reasons.' : '');
  byId('plan-front').hidden = nearest;
  byId('plan-table').replaceChildren(nearest ? '' : planTable(view, front));
}

const workText = ({entries, tokens, epochs}) => tokens > 0
  ? `${count(entries)} entries × ${count(tokens)} tokens × ${plural(epochs, 'epoch')} = ` +
    `${brief(entries * tokens * epochs)} tokens to train.`
  : 'The tokens of an entry are missing.';

// "24 h, 100 USD and 90 % of the memory".
function limitsText({hours, usd, memory}) {
  const parts = [hours && `${brief(hours)} h`, usd && `${brief(usd)} USD`, memory && `${brief(memory)} % of the memory`]
    .filter(Boolean);
  return [parts.slice(0, -1).join(', '), parts.at(-1)].filter(Boolean).join(' and ');
}

const memoryText = ({peak, memoryPercent}) => !(peak > 0) ? 'not known' : `${brief(peak)} GiB` +
  (Number.isNaN(memoryPercent) ? '' : `, ${brief(memoryPercent)} % of the device`);
const planDetails = (view, {row}) => h('button', {type: 'button',
  'aria-label': `Details of ${answerConfiguration(view.data, row)} on ${view.data.text('derived.devices', row)}`,
  onclick: () => openDetails(view.data, row)}, 'Details');

function planLead(view, nearest, name, entry) {
  const {row, hours, usd, kwh, repeats} = entry;
  return h('article', {class: 'lead', 'data-plan': name},
    h('h3', null, `${nearest ? 'Nearest, the ' : 'The '}${name}`),
    h('p', {class: 'figure'}, h('strong', null, `${brief(hours)} h, ${usdText(usd)}`)),
    h('p', null, `${answerConfiguration(view.data, row) || 'the only configuration'}, on ` +
      `${view.data.text('derived.devices', row)}`),
    h('p', {class: 'quiet'}, kwh > 0 ? `GPU energy ${brief(kwh)} kWh. ` : '', `Peak memory ${memoryText(entry)}. ` +
      `n = ${repeats.length}.`), planDetails(view, entry));
}

function planTable(view, front) {
  const {data} = view;
  const columns = [['Configuration', 'wrap', entry => answerConfiguration(data, entry.row)],
    ['Hours', 'number', entry => brief(entry.hours)], ['USD', 'number', entry => brief(entry.usd)],
    ['GPU kWh', 'number', entry => brief(entry.kwh)], ['Peak memory', 'number', memoryText],
    ['Devices', undefined, entry => data.text('derived.devices', entry.row)],
    ['', undefined, entry => planDetails(view, entry)]]
    .filter(([label]) => label !== 'GPU kWh' || front.some(entry => entry.kwh > 0));
  return h('table', null,
    h('thead', null, h('tr', null, columns.map(([label, kind]) =>
      h('th', {scope: 'col', class: kind === 'number' && kind}, label)))),
    h('tbody', null, front.map(entry => h('tr', {'data-key': data.text('derived.key', entry.row)},
      columns.map(([label, kind, cell]) => h('td', {class: kind, 'data-label': label || undefined}, cell(entry)))))));
}

function planNote(view, prices) {
  const work = {
    'dataset tokens': 'A rate holds for entries that are padded like the measured ones.',
    'padded tokens': 'An entry counts as padded to the sequence length, so hours are at most these.',
    samples: 'An entry counts as long as the measured ones.',
  };
  return 'This form finds the measured configuration that trains your data in time and within a budget. Hours are of ' +
    `steady training, at the median ${view.rate} of repeats. Start-up, evaluation and saving come on top. ` +
    `${work[prices.counted]} Cost is by the prices above. GPU energy comes from energy counters, where they were read.`;
}
