// Elements: texts go in as texts, so that nothing of a measurement is ever read as markup.

function assigned(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined
    && child !== false));
  return element;
}

const h = (name, attributes, ...children) => assigned(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) =>
  assigned(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
const byId = id => document.getElementById(id);

// A select whose options are [value, label]; `changed` gets the value.
function choice(label, options, value, changed) {
  const select = h('select', {onchange: () => changed(select.value)},
    options.map(([option, text]) => h('option', {value: option, selected: option === value}, text)));
  return h('label', null, label, select);
}

function openDialog(title, ...content) {
  const dialog = byId('dialog');
  dialog.replaceChildren();
  assigned(dialog, null, [h('h2', {id: 'dialog-title'}, title), content]);
  dialog.showModal();
  dialog.scrollTop = 0;
  return dialog;
}

// Names beside values, those without a value left out.
const definitions = pairs => pairs.filter(([, value]) => value !== '' && value !== null
  && value !== undefined)
  .flatMap(([name, value]) => [h('dt', null, name), h('dd', null, value)]);

// Rows of cells, numbers to the right: `columns` are {label, numeric}.
function plainTable(columns, rows) {
  const kind = column => column.numeric ? 'number' : undefined;
  return h('table', null,
    h('thead', null, h('tr', null, columns.map(c => h('th', {scope: 'col', class: kind(c)}, c.label)))),
    h('tbody', null, rows.map(row => h('tr', null,
      row.map((cell, i) => h('td', {class: kind(columns[i])}, cell))))));
}
