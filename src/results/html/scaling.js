// What more GPUs bring: the rate of a configuration beside its own on the fewest GPUs, with the same batch on
// each device and everything else equal.

function drawScaling(view) {
  const {data} = view;
  const section = byId('scaling');
  const draw = () => {
    const panels = scalingPanels(view);
    section.hidden = panels.length === 0;
    if (section.hidden) return;
    byId('scaling-note').textContent =
      `Speed-up over the fewest GPUs of the same configuration, by ${view.rate}: median over the ` +
      `configurations, the whisker from the least to the most. The dashed line is perfect. ` +
      `The batch of each device stays the same.`;
    drawPanels(byId('chart-scaling'), panels, 6,
      ([name, lines], width) => scalingPanel(view, name, lines, width));
  };
  view.watch(draw);
  draw();
}

// Everything but what changes with the number of GPUs.
function scalingKey(data, columns, row) {
  const batch = data.number('input.batch_size', row) / data.deviceCount(row);
  return `${columns.map(column => column.codes ? column.codes[row] : column.numbers[row]).join(' ')} ${batch}`;
}

function scalingPanels(view) {
  const {data} = view;
  const rates = view.rateNumbers;
  if (!rates || data.column('input.number_gpus')?.constant !== false) return [];
  const whole = /_per_gpu/.test(view.rate) ? row => rates[row] * data.deviceCount(row) : row => rates[row];
  const columns = data.columns.filter(column => !column.constant &&
    (column.group === 'input' || column.key === 'outcome.experiment') &&
    !/^input\.(number_gpus|batch_size|number_nodes)$/.test(column.key));
  const rows = [...view.validRows].filter(row => rates[row] > 0 && data.number('input.number_gpus', row) > 0);
  const panelOf = panelKey(data, data.column('outcome.experiment')?.constant === false ? 'both'
    : 'input.model_name');
  const panels = new Map();
  for (const members of grouped(rows, row => scalingKey(data, columns, row)).values()) {
    const byGpus = [...grouped(members, row => data.deviceCount(row))].sort((a, b) => a[0] - b[0]);
    if (byGpus.length < 2) continue;
    const base = median(byGpus[0][1].map(whole)) / byGpus[0][0];
    const panel = `${panelOf(members[0])} · ${data.device(members[0])}`;
    const line = data.text('input.model_max_length', members[0]);
    const lines = panels.get(panel) ?? panels.set(panel, new Map()).get(panel);
    const places = lines.get(line) ?? lines.set(line, new Map()).get(line);
    for (const [gpus, repeats] of byGpus) {
      const place = places.get(gpus) ?? places.set(gpus, {gpus, speedups: [], rows: []}).get(gpus);
      place.speedups.push(median(repeats.map(whole)) / base);
      place.rows.push(...repeats);
    }
  }
  const size = lines => [...lines.values()].reduce((sum, places) => sum + places.size, 0);
  return [...panels].sort((a, b) => size(b[1]) - size(a[1]) || ordered(a[0], b[0]));
}

function scalingPanel(view, name, lines, width) {
  const all = [...lines].sort((a, b) => ordered(a[0], b[0])).slice(0, kMostLines)
    .map(([label, places], index, kept) => ({label, color: ordinalColor(index, kept.length),
      shape: kShapes[index], marks: [...places.values()].sort((a, b) => a.gpus - b.gpus).map(place => {
        const [least, most] = extremes(place.speedups);
        return {...place, least, most, speedup: median(place.speedups)};
      })}));
  const gpus = [...new Set(all.flatMap(line => line.marks.map(m => m.gpus)))].sort((a, b) => a - b);
  const most = extremes(all.flatMap(line => line.marks.map(m => m.most)))[1];
  const frame = {left: 52, right: width - 12, top: 24, bottom: 220};
  const x = logScale(gpus[0], gpus.at(-1), frame.left + 14, frame.right - 14, gpus);
  x.label = formatted;
  const top = Math.max(most, gpus.at(-1));
  const y = logScale(gpus[0] * .9, top * 1.1, frame.bottom, frame.top);
  const describe = (line, m) => [`${m.gpus} GPUs: ${brief(m.speedup)} times one`,
    `${brief(100 * m.speedup / m.gpus)} % efficiency`, `model_max_length ${line.label}`,
    `${plural(m.speedups.length, 'configuration')}, ${brief(m.least)} to ${brief(m.most)} times`];
  const perfect = s('line', {class: 'perfect', x1: x(gpus[0]), y1: y(gpus[0]), x2: x(gpus.at(-1)),
    y2: y(gpus.at(-1))});
  const drawn = all.map((line, index) => s('g', null,
    s('polyline', {class: 'line', stroke: line.color,
      points: line.marks.map(m => `${x(m.gpus).toFixed(1)},${y(m.speedup).toFixed(1)}`).join(' ')}),
    line.marks.map((m, place) => mark(describe(line, m), m.rows, {'data-group': index, 'data-place': place},
      s('line', {class: 'whisker', stroke: line.color, x1: x(m.gpus), x2: x(m.gpus), y1: y(m.least),
        y2: y(m.most)}),
      shape(line.shape, x(m.gpus), y(m.speedup), 4.5, {fill: line.color})))));
  return h('figure', {'data-panel': name}, h('figcaption', null, name),
    chartSvg(width, 262, `${name}: speed-up against GPUs`, axes(frame, x, y, 'GPUs', 'times one GPU'),
      perfect, drawn),
    legend('model_max_length', all),
    alternative([{label: 'model_max_length', numeric: true}, {label: 'GPUs', numeric: true},
      {label: 'speed-up', numeric: true}, {label: 'efficiency (%)', numeric: true},
      {label: 'configurations', numeric: true}],
    () => all.flatMap(line => line.marks.map(m => [line.label, formatted(m.gpus), formatted(m.speedup),
      formatted(100 * m.speedup / m.gpus), count(m.speedups.length)]))));
}
