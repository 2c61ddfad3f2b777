// What the reader has chosen, opened and scrolled to, so that fresh data change the figures and
// nothing else.

// Numbers of rows mean nothing in other data; the files of results do.
const filesOf = (data, rows) => rows.map(row => data.text('outcome.file', row));

function kept({data, view, prices, table: grid}) {
  return {
    filters: new Map(view.filters), search: byId('filters').querySelector('input').value.trim(),
    devices: view.devices, rate: view.rate, compared: [...view.compared],
    plan: view.plan,
    prices: new Map(prices.usdPerHour), sorting: grid.sorting, visible: new Set(grid.visible),
    all: byId('all-columns').getAttribute('aria-pressed'),
    selection: grid.selection && {files: filesOf(data, [...grid.selection.rows]),
      title: grid.selection.title},
    active: grid.active >= 0 ? data.text('outcome.file', grid.order[grid.active]) : '',
    gridPlace: gridPlace(data, grid),
    selects: [...document.querySelectorAll('.controls[id]')].map(controls =>
      [controls.id, [...controls.querySelectorAll('select')].map(select => select.value)]),
    whole: [...document.querySelectorAll('[data-whole]')].map(list => list.id),
    open: [...document.querySelectorAll('main details[open]')].map(detailsPlace),
    focus: focusPlace(), anchor: scrollAnchor()};
}

// The first row in sight, by its file: rows that come above it do not move it.
function gridPlace(data, grid) {
  const {scrollTop, scrollLeft} = grid.scroller;
  const index = Math.floor(scrollTop / kRowHeight);
  return {left: scrollLeft, top: scrollTop, within: scrollTop % kRowHeight,
    file: scrollTop > 0 && index < grid.order.length
      ? data.text('outcome.file', grid.order[index]) : ''};
}

const detailsPlace = details => details.id || [details.closest('section').id,
  details.closest('[data-panel]')?.dataset.panel, details.closest('.chart')?.id].join('\n');

const kFocusable = 'button, input, select, a, summary, [tabindex]';

function focusPlace() {
  const {activeElement: element} = document;
  const root = element?.closest('[id]');
  if (!root || element === document.body || element.closest('dialog')) return null;
  const cursor = element.matches('input[type="search"], input[type="text"]')
    ? [element.selectionStart, element.selectionEnd] : null;
  if (root === element) return {id: root.id, index: -1, cursor};
  if (element.matches('.mark')) {
    return {id: root.id, panel: element.closest('[data-panel]')?.dataset.panel,
      title: element.lines[1], place: element.dataset.place, group: element.dataset.group};
  }
  return {id: root.id, index: [...root.querySelectorAll(kFocusable)].indexOf(element),
    name: element.tagName, cursor};
}

// The part that the reader looks at, and how far down it is.
function scrollAnchor() {
  const parts = [...document.querySelectorAll('header, main > section')]
    .filter(part => part.checkVisibility());
  const part = parts.filter(p => p.getBoundingClientRect().top <= 90).at(-1);
  return scrollY > 0 && part ? {part, top: part.getBoundingClientRect().top} : null;
}

// What has to be known before anything is drawn.
function restoreView(view, prices, was) {
  for (const [key, filter] of was.filters) {
    const column = view.data.column(key);
    if (column && (column.exact || !filter.values)) view.filters.set(key, filter);
  }
  view.search = was.search;
  view.devices = was.devices;
  if (view.rates.includes(was.rate)) view.rate = was.rate;
  view.compared = was.compared;
  view.plan = was.plan;
  view.update();
  for (const [device, price] of was.prices) {
    if (prices.usdPerHour.has(device)) prices.usdPerHour.set(device, price);
  }
  prices.update();
}

// What has to be drawn before it can be brought back.
function restorePage({data, table: grid}, was) {
  for (const [id, values] of was.selects) {
    [...byId(id).querySelectorAll('select')].forEach((select, i) => {
      const known = [...select.options].some(option => option.value === values[i]);
      if (!known || select.value === values[i]) return;
      select.value = values[i];
      select.dispatchEvent(new Event('change'));
    });
  }
  for (const id of was.whole) byId(id).querySelector('.button-row button')?.click();
  for (const details of document.querySelectorAll('main details')) {
    if (details.open || !was.open.includes(detailsPlace(details))) continue;
    details.open = true;
    details.dispatchEvent(new Event('toggle'));  // now, not later: the page's height follows from it
  }
  restoreTable(data, grid, was);
  restoreFocus(was.focus);
  restoreScroll(was.anchor);
}

function restoreTable(data, grid, was) {
  grid.sorting = was.sorting.filter(({key}) => data.column(key));
  grid.visible = was.all === 'true' ? new Set(grid.varying().map(column => column.key))
    : was.visible;
  byId('all-columns').setAttribute('aria-pressed', was.all);
  if (was.selection) {
    const rows = was.selection.files.map(file => data.rowOfFile(file))
      .filter(row => row !== undefined);
    if (rows.length > 0) grid.selection = {rows, title: was.selection.title};
  }
  grid.refresh();
  const places = new Map(Array.from(grid.order, (row, place) => [row, place]));
  const placeOf = file => file ? places.get(data.rowOfFile(file)) ?? -1 : -1;
  const first = placeOf(was.gridPlace.file);
  grid.scroller.scrollLeft = was.gridPlace.left;
  grid.scroller.scrollTop = first >= 0 ? first * kRowHeight + was.gridPlace.within
    : was.gridPlace.top;
  grid.active = placeOf(was.active);
  grid.paint();
}

function restoreFocus(place) {
  const root = place && byId(place.id);
  if (!root) return;
  if (place.group !== undefined) return markLike(root, place)?.focus({preventScroll: true});
  const element = place.index < 0 ? root : root.querySelectorAll(kFocusable)[place.index];
  if (!element || place.index >= 0 && element.tagName !== place.name) return;
  element.focus({preventScroll: true});
  if (place.cursor) element.setSelectionRange(...place.cursor);
}

// What it says of its configuration tells a mark from others, and so does its place.
function markLike(root, {panel, title, place, group}) {
  const marks = [...root.querySelectorAll('.mark')]
    .filter(mark => mark.closest('[data-panel]')?.dataset.panel === panel);
  return marks.find(mark => mark.lines[1] === title)
    ?? marks.find(mark => mark.dataset.place === place && mark.dataset.group === group);
}

function restoreScroll(anchor) {
  if (!anchor) return;
  const moved_px = anchor.part.getBoundingClientRect().top - anchor.top;
  scrollBy({top: moved_px, behavior: 'instant'});
}
