// What each input does: pairs of configurations that differ in it alone, each value beside the one that most
// configurations have. The geometric mean of their ratios, with its 95 % interval over the pairs, as report --vary
// has them.

const kMostEffectRows = 20000;
const kFewestPairs = 2;

function drawEffects(view) {
  const draw = () => {
    const effects = effectsOf(view);
    const section = byId('effects');
    section.hidden = effects.length === 0;
    if (section.hidden) return;
    byId('effects-note').textContent =
      `Each value beside the one that most configurations have, over pairs that differ in nothing else, by ` +
      `${view.rate}, the median of repeats. An interval that holds 1 is no effect.` +
      (view.validRows.length > kMostEffectRows ? ` The first ${count(kMostEffectRows)} valid measurements.` : '');
    drawPanels(byId('chart-effects'), effects, 8, (effect, width) => effectPanel(effect, width));
  };
  view.watch(draw);
  draw();
}

function effectsOf(view) {
  const {data} = view;
  const rates = view.rateNumbers;
  if (!rates) return [];
  const columns = data.columns.filter(column => !column.constant && column.exact &&
    (column.group === 'input' || column.key === 'outcome.experiment'));
  const rows = [...view.validRows.slice(0, kMostEffectRows)].filter(row => rates[row] > 0);
  const effects = [];
  for (const column of columns) {
    const others = columns.filter(other => other !== column);
    const cells = grouped(rows, row => others.map(other => other.codes[row]).join(' '));
    const base = mostFrequent(column, cells);
    const pairs = new Map();  // by value
    for (const members of cells.values()) {
      if (members.length < 2) continue;
      const byValue = [...grouped(members, row => column.codes[row])];
      const own = byValue.find(([code]) => code === base);
      if (!own) continue;
      const side = repeats => sampled(data, repeats, repeats.map(row => rates[row]));
      for (const [code, repeats] of byValue) {
        const interval = code !== base && ratioInterval(side(repeats), side(own[1]), view.spread);
        if (!interval) continue;
        const found = pairs.get(code) ?? pairs.set(code, {intervals: [], rows: []}).get(code);
        found.intervals.push(interval);
        found.rows.push(...repeats);
      }
    }
    const values = [...pairs].filter(([, found]) => found.intervals.length >= kFewestPairs)
      .sort((a, b) => ordered(column.values[a[0]], column.values[b[0]])).slice(0, 10)
      .map(([code, found]) => ({label: formatted(column.values[code]) || '(none)', ...effectOf(found.intervals),
        rows: found.rows}));
    if (values.length > 0)
      effects.push({name: column.label, base: formatted(column.values[base]) || '(none)', values});
  }
  const size = effect => Math.max(...effect.values.map(value => Math.abs(Math.log(value.ratio))));
  return effects.sort((a, b) => size(b) - size(a));
}

// The code that most configurations have; of several the first in the order of --vary.
function mostFrequent(column, cells) {
  const counts = new Map();
  for (const members of cells.values())
    for (const code of new Set(members.map(row => column.codes[row]))) counts.set(code, (counts.get(code) ?? 0) + 1);
  const text = code => String(column.values[code] ?? '');
  return [...counts].reduce((a, b) => b[1] > a[1] || b[1] === a[1] && text(b[0]) < text(a[0]) ? b : a, [0, 0])[0];
}

// Ratios that agree by chance claim nothing that none of their pairs shows.
function effectOf(intervals) {
  const logs = intervals.map(interval => Math.log(interval.ratio));
  const center = mean(logs);
  const deviation = Math.sqrt(logs.reduce((sum, log) => sum + (log - center) ** 2, 0) / (logs.length - 1));
  const half = studentT(.95, logs.length - 1) * deviation / Math.sqrt(logs.length);
  const lows = intervals.map(interval => interval.low);
  const highs = intervals.map(interval => interval.high);
  const low = Math.exp(center - half);
  const high = Math.exp(center + half);
  return {ratio: Math.exp(center), pairs: logs.length,
    low: lows.some(one => one > 1) ? low : Math.min(low, Math.max(...lows)),
    high: highs.some(one => one < 1) ? high : Math.max(high, Math.min(...highs))};
}

const shortened = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

function effectPanel(effect, width) {
  const tall = 26;
  const label = Math.min(180, width / 3);
  const frame = {left: label, right: width - 14, top: 24, bottom: 24 + tall * effect.values.length};
  const [low, high] = extremes(effect.values.flatMap(v => [Math.max(v.low, v.ratio / 20), Math.min(v.high,
    v.ratio * 20), 1]));
  const x = logScale(low / 1.05, high * 1.05, frame.left, frame.right);
  const inside = value => Math.min(Math.max(x(value), frame.left), frame.right);
  const drawn = effect.values.map((value, place) => {
    const y = frame.top + (place + .5) * tall;
    const none = value.low <= 1 && value.high >= 1;
    return mark([`${effect.name} ${value.label} beside ${effect.base}: ${brief(value.ratio)} times`,
      `95 %: ${brief(value.low)} to ${brief(value.high)}${none ? ', no effect' : ''}`,
      plural(value.pairs, 'pair')], value.rows, {'data-group': 0, 'data-place': place},
      s('text', {x: frame.left - 8, y: y + 4, 'text-anchor': 'end'}, shortened(value.label, Math.floor((label - 12) / 6))),
      s('line', {class: 'interval', x1: inside(value.low), x2: inside(value.high), y1: y, y2: y}),
      shape(none ? 'diamond' : 'circle', x(value.ratio), y, 4.5,
        {fill: none ? 'var(--quiet)' : 'var(--s0)'}));
  });
  return h('figure', {'data-panel': effect.name},
    h('figcaption', null, `${effect.name}, beside ${effect.base}`),
    chartSvg(width, frame.bottom + 40, `Effect of ${effect.name}`,
      s('g', {'aria-hidden': 'true'},
        s('line', {class: 'perfect', x1: x(1), x2: x(1), y1: frame.top - 6, y2: frame.bottom}),
        x.ticks.filter(tick => x(tick) >= frame.left && x(tick) <= frame.right).map(tick =>
          s('text', {x: x(tick), y: frame.bottom + 15, 'text-anchor': 'middle'}, brief(tick))),
        s('text', {class: 'axis-title', x: (frame.left + frame.right) / 2, y: frame.bottom + 33,
          'text-anchor': 'middle'}, 'times as fast')), drawn),
    alternative([{label: effect.name}, {label: 'ratio', numeric: true}, {label: 'low', numeric: true},
      {label: 'high', numeric: true}, {label: 'pairs', numeric: true}],
    () => effect.values.map(v => [v.label, formatted(v.ratio), formatted(v.low), formatted(v.high),
      count(v.pairs)])));
}
