// The runs whose curves stand over each other: those that the reader chose, else the newest of what
// is shown.

const kNewest = 3;

function drawCurves(view) {
  const {data} = view;
  const section = byId('curves');
  const rows = Array.from({length: data.rows}, (_, row) => row);
  section.hidden = !data.curves || !rows.some(row => data.curves.has(row));
  if (section.hidden) return;
  byId('curves-controls').replaceChildren(
    h('button', {type: 'button', id: 'compare-first', onclick: () => {
      view.compare([...table.order].filter(row => data.curves.has(row)).slice(0, kMostCompared));
    }}, `Compare the first ${kMostCompared} rows of the table`),
    h('button', {type: 'button', id: 'compare-none', onclick: () => view.compare([])},
      'The newest again'));
  byId('curves-left-out').replaceChildren(...leftOutCurves(data));
  const draw = () => {
    const chosen = view.comparedRows;
    const shown = chosen.length > 0 ? chosen : newestRows(view);
    byId('compare-none').hidden = chosen.length === 0;
    byId('curves-note').textContent = curvesNote(view, chosen, shown);
    const runs = comparedRuns(data, shown);
    byId('curves-legend').replaceChildren(
      ...runs.map(run => runEntry(view, run, chosen.length > 0)));
    const container = byId('chart-curves');
    const width = panelWidth(container, 6);
    const figures = curveFigures(data, runs, width);
    container.replaceChildren(figures.length > 0 ? h('div', {class: 'panels'}, figures)
      : h('p', {class: 'note'}, 'No run that is shown has curves.'));
  };
  view.watch(draw);
  view.watchCompared(draw);
  draw();
}

// The newest first, of what the filters leave.
function newestRows(view) {
  const {data} = view;
  const newest = [];  // {row, time}, at most so many
  for (const row of view.rows) {
    if (!data.curves.has(row)) continue;
    const time = data.text('outcome.finished_at', row);
    if (newest.length === kNewest && time < newest.at(-1).time) continue;
    newest.push({row, time});
    newest.sort((a, b) => a.time < b.time ? 1 : a.time > b.time ? -1 : b.row - a.row);
    newest.length = Math.min(newest.length, kNewest);
  }
  return newest.map(({row}) => row);
}

function curvesNote(view, chosen, shown) {
  const {data} = view;
  const choose = `Choose up to ${kMostCompared}: in the table with the space bar or Ctrl and a ` +
    `click, or in the details of a measurement.`;
  if (chosen.length > 0)
    return `${plural(chosen.length, 'run')} that you chose, whatever the filters leave. ${choose}`;
  const all = [...view.rows].filter(row => data.curves.has(row)).length;
  return (all <= kNewest ? `All of ${plural(all, 'measurement')}`
    : `The newest ${shown.length} of ${count(all)} measurements`) +
    ` with curves that the filters leave. ${choose}`;
}

function runEntry(view, run, removable) {
  return h('li', {'data-run': run.row},
    s('svg', {viewBox: '0 0 28 14', class: 'swatch', 'aria-hidden': 'true'},
      s('line', {class: 'line', stroke: run.color, 'stroke-dasharray': run.dash || undefined,
        x1: 0, x2: 28, y1: 7, y2: 7})),
    h('button', {type: 'button', class: 'plain', onclick: () => openDetails(view.data, run.row)},
      run.label),
    removable ? h('button', {type: 'button', class: 'plain',
      'aria-label': `Compare without ${run.label}`,
      onclick: () => view.toggleCompared(run.row)}, '×') : null);
}

// What a reader would look for and not find.
function leftOutCurves(data) {
  const {most_places: places, left_out: left, without_series: without, problems} = data.curves.head;
  return [`At most ${places} places a curve. Where one stands for several readings or several ` +
    `GPUs, the line is their mean and the band reaches from the least to the greatest. ` +
    (left > 0 ? `The page has room for the curves of the newest measurements: ` +
      `${plural(left, 'older one')} ` +
      `${left === 1 ? 'has' : 'have'} none here. ` : '') +
    (without > 0 ? `${plural(without, 'measurement')} came without samples over time. ` : ''),
  problems.length > 0 ? h('details', {id: 'curve-problems'},
    h('summary', null, `${plural(problems.length, 'file')} of samples could not be read`),
    h('ul', null, problems.slice(0, 100).map(problem => h('li', null, problem)))) : ''];
}

// Part of the details of a measurement.
function curvesOf(data, row, width) {
  if (!data.curves?.has(row)) return null;
  const {view} = page;
  const text = () => view.isCompared(row) ? 'Take out of the comparison'
    : 'Compare with other runs';
  const button = h('button', {type: 'button', id: 'compare-this', onclick: () => {
    view.toggleCompared(row);
    button.textContent = text();
  }}, text());
  return h('div', {id: 'detail-curves'}, h('h3', null, 'Loss, and use over time'),
    h('p', {class: 'controls'}, button),
    h('div', {class: 'panels'}, curveFigures(data, comparedRuns(data, [row]), width)));
}
