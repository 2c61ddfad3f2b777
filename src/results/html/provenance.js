// Where the figures come from: one measurement in full, and what all of them were taken with.

const kFewValues = 8;

function openDetails(data, row) {
  const command = data.text('outcome.command', row);
  const others = data.columns.filter(column => column.key !== 'outcome.command');
  const groups = [...Map.groupBy(others, column => column.group)];
  const pre = h('pre', {class: 'mono'}, command);
  openDialog(data.text('input.model_name', row) || data.text('outcome.entity_id', row),
    command ? h('p', {class: 'controls'}, 'The command that repeats it',
      h('button', {type: 'button', onclick: event => copy(command, pre, event.target)}, 'Copy')) : null,
    command ? pre : null,
    curvesOf(data, row, dialogWidth()),
    groups.map(([group, columns]) => [h('h3', null, group), h('dl', null, definitions(columns.map(column =>
      [column.label, column.value(row) === null ? ''
        : `${column.text(row)}${column.unit ? ` ${column.unit}` : ''}`])))]),
    h('footer', null, h('button', {type: 'button', class: 'active', onclick: () => byId('dialog').close()},
      'Close')));
}

// Of a chart in the dialog, which is as wide as page.css says: two in a line where there is room.
function dialogWidth() {
  const room = Math.min(736, innerWidth * .94) - 42;
  return (room >= 560 ? (room - 16) / 2 : room) - 24;
}

// Where the browser keeps the clipboard from pages, the text is selected instead.
async function copy(text, shown, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(shown);
    button.textContent = 'Selected: copy it with Ctrl+C';
  }
}

// "valid 12, invalid 3": the most frequent values first.
function tally(column, rows) {
  if (!column) return '';
  const counts = [...grouped(rows, row => column.text(row) || '(none)')].sort((a, b) =>
    b[1].length - a[1].length);
  const shown = counts.slice(0, kFewValues).map(([value, members]) => counts.length > 1
    ? `${value} (${count(members.length)})` : value);
  return shown.join('\n') + (counts.length > kFewValues ? `\n… ${count(counts.length - kFewValues)} more`
    : '');
}

function timeSpan(data) {
  const times = key => (data.column(key)?.values ?? []).filter(Boolean);
  const [first] = times('outcome.started_at').sort();
  const last = times('outcome.finished_at').sort().at(-1);
  return first && last ? [first, last].map(time => `${time.slice(0, 16).replace('T', ' ')} UTC`) : [];
}

function drawProvenance(data) {
  const rows = Array.from({length: data.rows}, (_, row) => row);
  const {head} = data;
  const environment = data.columns.filter(column => column.group === 'environment')
    .map(column => [column.label + (column.unit ? ` (${column.unit})` : ''), tally(column, rows)]);
  byId('provenance-list').replaceChildren(...definitions([
    ['results', head.source], ['page made by', head.created_by], ['page made at', head.created_at],
    ['measured', timeSpan(data).join(' to ')], ['status', tally(data.column('outcome.status'), rows)],
    ['experiment', tally(data.column('outcome.experiment'), rows)], ...environment]));
  byId('notes').replaceChildren(...(head.notes?.length ? [h('h3', null, 'Notes'),
    h('ul', null, head.notes.map(note => h('li', null, note)))] : []));
  byId('skipped').replaceChildren();
  if (head.skipped.length === 0) return;
  byId('skipped').replaceChildren(h('h3', null,
    `${plural(head.skipped.length, 'file')} that could not be used`),
    h('ul', null, head.skipped.slice(0, 1000).map(({file, reason}) => h('li', null, h('code', null, file),
      `: ${reason}`))),
    head.skipped.length > 1000 ? h('p', {class: 'note'}, `… ${count(head.skipped.length - 1000)} more`)
      : '');
}

function drawSummary(data) {
  const status = data.column('outcome.status');
  const rows = Array.from({length: data.rows}, (_, row) => row);
  const counts = ['valid', 'invalid', 'failed'].map(name =>
    `${count(rows.filter(row => status?.text(row) === name).length)} ${name}`);
  const span = timeSpan(data);
  const hosts = data.column('environment.host')?.values.length - 1;
  byId('summary').textContent = `${plural(data.rows, 'measurement')}: ${counts.join(', ')}. ` +
    (span.length ? `${span.join(' to ')}` : '') +
    (hosts > 0 ? `, on ${plural(hosts, 'host')}. ` : '. ') +
    (data.head.skipped.length ? `${plural(data.head.skipped.length, 'file')} skipped. ` : '') +
      `From ${data.head.source}.`;
  const simulated = rows.filter(row => data.text('outcome.evidence_of', row) === 'simulation').length;
  const warning = byId('simulated');
  warning.hidden = simulated === 0;
  warning.textContent = `${count(simulated)} of ${plural(data.rows, 'measurement')} come from the ` +
    `simulated backend: they say nothing about any machine.`;
  document.title = `sftbench report: ${data.head.source}`;
}
