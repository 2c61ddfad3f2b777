// The ground of all charts: scales, axes, marks that the pointer and the keyboard reach, tooltips,
// legends, and a table behind each chart.

const kShapes = ['circle', 'square', 'diamond', 'triangle', 'cross', 'down', 'pentagon', 'star'];

// Corners for a shape of radius 1; a circle has none.
const kCorners = {
  square: [[-.85, -.85], [.85, -.85], [.85, .85], [-.85, .85]],
  diamond: [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
  triangle: [[0, -1.15], [1.1, .85], [-1.1, .85]],
  down: [[0, 1.15], [1.1, -.85], [-1.1, -.85]],
  cross: [[-.4, -1.1], [.4, -1.1], [.4, -.4], [1.1, -.4], [1.1, .4], [.4, .4], [.4, 1.1], [-.4, 1.1],
    [-.4, .4], [-1.1, .4],
    [-1.1, -.4], [-.4, -.4]],
  pentagon: regular(5, 1.1),
  star: regular(10, 1.25, .55),
};

function regular(corners, radius, inner = radius) {
  return Array.from({length: corners}, (_, i) => {
    const angle = 2 * Math.PI * i / corners - Math.PI / 2;
    const length = i % 2 ? inner : radius;
    return [length * Math.cos(angle), length * Math.sin(angle)];
  });
}

function shape(name, x, y, radius, attributes) {
  if (!kCorners[name]) return s('circle', {cx: x, cy: y, r: radius, class: 'shape', ...attributes});
  const points = kCorners[name].map(([dx, dy]) =>
    `${(x + dx * radius).toFixed(1)},${(y + dy * radius).toFixed(1)}`);
  return s('polygon', {points: points.join(' '), class: 'shape', ...attributes});
}

function linearScale(low, high, from, to) {
  const scale = value => from + (value - low) / (high - low || 1) * (to - from);
  scale.ticks = evenTicks(low, high);
  return scale;
}

function evenTicks(low, high) {
  const step = niceStep((high - low) / 5);
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high * (1 + 1e-9); ++tick) ticks.push(tick * step);
  return ticks;
}

function logScale(low, high, from, to, ticks) {
  const span = Math.log(high / low) || 1;
  const scale = value => from + Math.log(value / low) / span * (to - from);
  scale.ticks = ticks ?? logTicks(low, high);
  return scale;
}

function niceStep(rough) {
  const size = 10 ** Math.floor(Math.log10(rough || 1));
  return size * ([1, 2, 5].find(factor => factor * size >= rough) ?? 10);
}

// 1, 2, 5, 10, ... or, over many decades, 1, 10, 100, ...; where these are too far apart, even steps.
function logTicks(low, high) {
  const factors = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); ++decade) {
    for (const factor of factors) {
      const tick = factor * 10 ** decade;
      if (tick >= low * .999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks.length > 2 ? ticks : evenTicks(low, high);
}

// Lines, labels and titles of both axes. `frame` is {left, right, top, bottom}: the plotting area.
function axes(frame, x, y, xTitle, yTitle) {
  const {left, right, top, bottom} = frame;
  return s('g', {'aria-hidden': 'true'},
    y.ticks.map(tick => [
      s('line', {class: 'grid', x1: left, x2: right, y1: y(tick), y2: y(tick)}),
      s('text', {x: left - 6, y: y(tick) + 4, 'text-anchor': 'end'}, brief(tick))]),
    x.ticks.map(tick => [
      s('line', {class: 'grid', x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4}),
      s('text', {x: x(tick), y: bottom + 17, 'text-anchor': 'middle'}, x.label?.(tick) ?? brief(tick))]),
    s('line', {class: 'grid', x1: left, x2: right, y1: bottom, y2: bottom}),
    s('text', {class: 'axis-title', x: (left + right) / 2, y: bottom + 34, 'text-anchor': 'middle'},
      xTitle),
    s('text', {class: 'axis-title', x: left - 42, y: top - 10}, yTitle));
}

// A place that has a text alternative: `lines` is what the tooltip says, the first of them its title;
// `rows` are the measurements behind it. dataset.group and dataset.place tell the arrow keys the way.
function mark(lines, rows, attributes, ...shapes) {
  const element = s('g', {class: 'mark', role: 'img', tabindex: -1, 'aria-label': lines.join('; '),
    ...attributes}, shapes);
  element.lines = lines;
  element.rows = rows;
  return element;
}

// The svg itself. Tab goes to the chart, arrow keys from mark to mark, Enter to the measurements.
function chartSvg(width, height, title, ...children) {
  const svg = s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'group',
    'aria-label': `${title}. Arrow keys go from mark to mark.`},
    children);
  const marks = [...svg.querySelectorAll('.mark')];
  marks[0]?.setAttribute('tabindex', 0);
  const markOf = event => event.target.closest?.('.mark');
  const show = event => markOf(event) ? showTooltip(markOf(event)) : hideTooltip();
  const open = target => target && showBehind(target.rows, target.lines[0]);
  svg.addEventListener('pointerover', show);
  svg.addEventListener('pointerleave', hideTooltip);
  svg.addEventListener('focusin', show);
  svg.addEventListener('focusout', hideTooltip);
  svg.addEventListener('click', event => open(markOf(event)));
  svg.addEventListener('keydown', event => {
    const from = markOf(event);
    const to = from && {ArrowRight: nextMark(marks, from, 1), ArrowLeft: nextMark(marks, from, -1),
      ArrowUp: otherGroup(marks, from, -1), ArrowDown: otherGroup(marks, from, 1),
      Home: marks[0], End: marks.at(-1)}[event.key];
    if (from && event.key === 'Enter') {
      event.preventDefault();
      open(from);
    }
    if (event.key === 'Escape') hideTooltip();
    if (!to) return;
    event.preventDefault();
    from.setAttribute('tabindex', -1);
    to.setAttribute('tabindex', 0);
    to.focus();
  });
  return svg;
}

const nextMark = (marks, from, step) => marks[(marks.indexOf(from) + step + marks.length) % marks.length];

// The mark at the same place of the next group, or the nearest to it.
function otherGroup(marks, from, step) {
  const groups = [...new Set(marks.map(m => m.dataset.group))];
  const group = groups[(groups.indexOf(from.dataset.group) + step + groups.length) % groups.length];
  const distance = m => Math.abs(m.dataset.place - from.dataset.place);
  return marks.filter(m => m.dataset.group === group).reduce((a, b) => distance(b) < distance(a) ? b : a);
}

// What the tooltip tells of, or null while it is hidden.
let told = null;

function showTooltip(target) {
  told = target;
  const tooltip = byId('tooltip');
  const [title, ...lines] = target.lines;
  tooltip.replaceChildren(h('b', null, title), ...lines.map(line => h('div', null, line)));
  tooltip.hidden = false;
  const box = target.getBoundingClientRect();
  const {width, height} = tooltip.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - width / 2), innerWidth - width - 8);
  const top = box.top - height - 10 > 0 ? box.top - height - 10 : box.bottom + 10;
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${top}px`;
}

function hideTooltip() {
  told = null;
  byId('tooltip').hidden = true;
}

// A tooltip goes with what the keyboard chose, and away with what the pointer did. A chart that gets the
// focus scrolls into view, and the page hears of that only after the first key.
addEventListener('scroll', () => {
  const focused = document.activeElement;
  if (told && focused.closest('svg') && focused.contains(told)) showTooltip(told);
  else hideTooltip();
}, {passive: true});

// Entries are {label, color, shape}; `of` says what the labels are values of.
function legend(of, entries) {
  return h('ul', {class: 'legend', 'aria-label': 'Legend'}, h('li', null, of),
    entries.map(({label, color, shape: name}) =>
    h('li', null, s('svg', {viewBox: '0 0 14 14', 'aria-hidden': 'true'},
      shape(name, 7, 7, 4.5, {fill: color})), label)));
}

// The same figures as a table, made when it is opened.
function alternative(columns, rows) {
  const details = h('details', {class: 'alternative'}, h('summary', null, 'As a table'));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) {
      details.append(h('div', {class: 'scroll', tabindex: 0, role: 'region',
        'aria-label': 'Figures of the chart'},
        plainTable(columns, rows())));
    }
  });
  return details;
}

// Of a chart in one of so many panels that stand in the container, beside each other where there is room.
function panelWidth(container, panels) {
  const [least, gap, padding] = [384, 16, 24];
  const room = container.clientWidth || 1200;
  const columns = Math.max(1, Math.min(panels, Math.floor((room + gap) / (least + gap))));
  return Math.max(280, Math.floor((room - gap * (columns - 1)) / columns) - padding);
}

// One panel per entry, the first `few` of them until all are asked for. `draw` gets the entry and a width.
function drawPanels(container, entries, few, drawEntry) {
  const width = panelWidth(container, Math.min(few, entries.length));
  const draw = entry => drawEntry(entry, width);
  const grid = h('div', {class: 'panels'}, entries.slice(0, few).map(draw));
  const rest = entries.slice(few);
  container.replaceChildren(entries.length > 0 ? grid : h('p', {class: 'note'},
    'Nothing to draw among the measurements that are shown.'));
  delete container.dataset.whole;
  if (rest.length === 0) return;
  const more = h('button', {type: 'button', onclick: () => {
    grid.append(...rest.map(draw));
    container.dataset.whole = '';  // fresh data keep it so
    more.remove();
  }},
    `Draw the other ${rest.length}`);
  container.append(h('p', {class: 'button-row'}, more));
}
