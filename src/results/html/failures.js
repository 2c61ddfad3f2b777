// What has no result, by reason, with the line that proves it and the log to read. Messages that differ
// only in numbers are one.

const kFewPatterns = 5;
const kMeanings = {
  OOM_GPU: 'The memory of a GPU did not suffice. Final: counted as invalid, not measured again.',
  OOM_HOST: 'The memory of the host, or its limit for this measurement, did not suffice.',
  HANG: 'No step ended for longer than the stall timeout.',
  TIMEOUT: 'The measurement took longer than its timeout.',
  KILLED: 'A process was ended from outside.',
  NCCL: 'Communication between GPUs failed.',
  DATA: 'The dataset is missing or cannot be read.',
  WEIGHTS: 'The model or its tokenizer is missing or cannot be read.',
  UNSUPPORTED: 'The program cannot do what was asked, and says what it can.',
  INTERNAL: 'Something unexpected: the log says more.',
};
const meaning = code => kMeanings[code] ?? (/^RULE_/.test(code)
  ? 'A static rule of the experiment forbids this combination. Final: counted as invalid, nothing was ' +
    'trained.' : '');

function drawFailures(view) {
  const {data} = view;
  const draw = () => {
    const rows = view.rows.filter(row => data.text('outcome.status', row) !== 'valid');
    const groups = [...grouped(rows,
      row => `${data.text('outcome.reason', row) || 'no reason'} ${data.text('outcome.status', row)}`)]
      .sort((a, b) => b[1].length - a[1].length);
    byId('failures-note').textContent = rows.length === 0 ? 'Every measurement that is shown is valid.'
      : `${count(rows.length)} of ${plural(view.rows.length, 'measurement')} that are shown. Invalid ` +
        `ones are settled; failed ones may be repeated.`;
    byId('failure-groups').replaceChildren(
      ...groups.map(([key, members]) => reasonBox(view, key, members)));
  };
  view.watch(draw);
  draw();
}

function reasonBox(view, key, rows) {
  const [code, status] = key.split(/ (?=\w+$)/);
  const {data} = view;
  const patterns = [...grouped(rows, row => data.text('outcome.message', row).replace(/\d+(\.\d+)?/g, '#'))]
    .sort((a, b) => b[1].length - a[1].length);
  const items = some => some.map(([, members]) => patternItem(data, members));
  const list = h('ul', null, items(patterns.slice(0, kFewPatterns)));
  const rest = patterns.slice(kFewPatterns);
  const more = h('button', {type: 'button',
    onclick: () => { list.append(...items(rest)); more.remove(); }},
    `Show ${plural(rest.length, 'other message')}`);
  return h('div', {class: `reason status-${status}`, 'data-reason': code},
    h('h3', null, `${code} `, h('span', {class: 'quiet'},
      `${status}, ${plural(rows.length, 'measurement')}`)),
    h('div', {class: 'share', role: 'presentation'},
      h('span', {style: `width: ${100 * rows.length / view.rows.length}%`})),
    h('p', {class: 'note'}, meaning(code)), list, rest.length > 0 ? more : null);
}

function patternItem(data, rows) {
  const first = rows[0];
  const evidence = data.text('outcome.evidence', first);
  const log = data.text('outcome.log', first);
  const title = `${data.text('outcome.reason', first)}: ${data.text('outcome.message', first)}`;
  return h('li', null, data.text('outcome.message', first),
    evidence ? h('pre', {class: 'mono'}, evidence) : null,
    h('div', {class: 'note'}, log ? ['Log: ', h('code', null, log), ' '] : 'No log. ',
      rows.length > 1 ? `and ${count(rows.length - 1)} more like it ` : '',
      h('button', {type: 'button', class: 'plain', style: 'color: var(--link)',
        'aria-label': `List the measurements with ${title}`,
        onclick: () => showBehind(rows, title)}, 'list')));
}
