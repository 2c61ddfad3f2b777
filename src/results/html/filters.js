// The bar of filters on top, and the dialog that filters one column by its values, by range or by text.

const kFirstFilters = ['outcome.status', 'outcome.reason', 'outcome.experiment', 'input.model_name',
  'input.gpu_model',
  'input.number_gpus', 'input.model_max_length', 'input.batch_size'];
const kMostListedValues = 400;

function drawFilters(view) {
  const {data} = view;
  const varying = data.columns.filter(column => !column.constant);
  const first = kFirstFilters.map(key => data.column(key)).filter(column => column && !column.constant);
  const button = column => h('button', {type: 'button', 'data-filter': column.key,
    onclick: () => openFilter(view, column)}, `${column.label} ▾`);
  const search = h('input', {type: 'search', placeholder: 'Search all texts',
    'aria-label': 'Search all texts', value: view.search || undefined});
  let waiting;
  search.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { view.search = search.value.trim(); view.changed(); }, 150);
  });
  const others = h('select', {'aria-label': 'Filter by another column', onchange: () => {
    const column = data.column(others.value);
    others.value = '';
    openFilter(view, column);
  }}, h('option', {value: ''}, 'Filter by …'),
    columnOptions(varying.filter(column => !first.includes(column))));
  const chips = h('span', {id: 'chips', class: 'controls'});
  const shown = h('output', {id: 'shown'});
  byId('filters').replaceChildren(search, ...first.map(button), others, chips, shown);

  const draw = () => {
    const active = [...view.filters].map(([key, filter]) => [filterText(data.column(key), filter),
      () => view.setFilter(key)]);
    chips.replaceChildren(
      ...active.map(([text, remove]) => h('button', {type: 'button', class: 'chip',
        'aria-label': `Remove filter ${text}`,
        onclick: remove}, `${text} ×`)),
      ...(view.filtered ? [h('button',
        {type: 'button', onclick: () => { search.value = ''; view.clear(); }}, 'Clear all')] : []));
    shown.textContent = view.filtered ? `${count(view.rows.length)} of ${plural(data.rows, 'measurement')}`
      : plural(data.rows, 'measurement');
    for (const element of byId('filters').querySelectorAll('[data-filter]')) {
      element.classList.toggle('active', view.filters.has(element.dataset.filter));
    }
  };
  view.watch(draw);
  draw();
}

// Options of a select, by group.
function columnOptions(columns) {
  return [...Map.groupBy(columns, column => column.group)].map(([group, members]) =>
    h('optgroup', {label: group}, members.map(column => h('option', {value: column.key}, column.label))));
}

function openFilter(view, column) {
  const current = view.filters.get(column.key) ?? {};
  const rows = view.passing(column.key);
  const parts = [];
  if (column.numeric) parts.push(rangePart(column, rows, current));
  if (column.exact && column.values.length <= 4096) parts.push(valuesPart(column, rows, current));
  else if (!column.numeric) parts.push(containsPart(current));
  const close = filter => { byId('dialog').close(); if (filter !== undefined) view.setFilter(column.key,
    filter); };
  const apply = () => close(parts.map(part => part.filter()).find(filter => filter) ?? null);
  const form = h('form', {method: 'dialog', onsubmit: event => { event.preventDefault(); apply(); }},
    parts.map(part => part.element),
    h('footer', null,
      h('button', {type: 'button', onclick: () => close()}, 'Cancel'),
      h('button', {type: 'button', onclick: () => close(null)}, 'No filter'),
      h('button', {type: 'submit', class: 'active'}, 'Apply')));
  openDialog(`Filter by ${column.label}${column.unit ? ` (${column.unit})` : ''}`, form);
}

function rangePart(column, rows, current) {
  const [least, greatest] = extremes([...rows].map(row => column.numbers[row]));
  const input = (label, value, limit) => h('input', {type: 'number', step: 'any', 'aria-label': label,
    placeholder: formatted(limit), value: Number.isFinite(value) ? value : undefined});
  const from = input('From', current.min, least);
  const to = input('To', current.max, greatest);
  return {
    element: h('p', {class: 'controls'}, h('label', null, 'From', from), h('label', null, 'to', to)),
    filter: () => from.value === '' && to.value === '' ? null
      : {min: from.value === '' ? -Infinity : Number(from.value), max: to.value === '' ? Infinity
        : Number(to.value)},
  };
}

function containsPart(current) {
  const input = h('input', {type: 'search', value: current.contains, 'aria-label': 'Contains'});
  return {
    element: h('p', {class: 'controls'}, h('label', null, 'Contains', input)),
    filter: () => input.value === '' ? null : {contains: input.value},
  };
}

// Every value with the number of rows that the other filters leave it.
function valuesPart(column, rows, current) {
  const counts = new Uint32Array(column.values.length);
  for (const row of rows) ++counts[column.codes[row]];
  const chosen = new Set(current.values);
  const listed = column.values.map((value, code) => ({value, count: counts[code]}))
    .filter(entry => entry.count > 0 || chosen.has(entry.value))
    .sort((a, b) => (a.value === null) - (b.value === null) || ordered(a.value, b.value));
  const list = h('div', {class: 'values', role: 'group', 'aria-label': 'Values'});
  const needle = h('input', {type: 'search', placeholder: 'Find a value', 'aria-label': 'Find a value',
    oninput: () => fill()});
  const fill = () => {
    const wanted = needle.value.toLowerCase();
    const matching = listed.filter(({value}) => formatted(value).toLowerCase().includes(wanted));
    list.replaceChildren(
      ...matching.slice(0, kMostListedValues).map(({value, count: n}) => {
        const box = h('input', {type: 'checkbox', checked: chosen.has(value),
          onchange: () => box.checked ? chosen.add(value) : chosen.delete(value)});
        return h('label', null, box, value === null ? '(none)' : formatted(value),
          h('span', {class: 'count'}, count(n)));
      }),
      ...(matching.length > kMostListedValues
        ? [`${matching.length - kMostListedValues} more: find them by name`] : []));
  };
  fill();
  return {
    element: h('div', null, listed.length > 12 ? needle : null, list),
    filter: () => chosen.size > 0 ? {values: chosen} : null,
  };
}
