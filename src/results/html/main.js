// Reads the data, then draws each part of the page once; from then on the parts follow the view.

// The system's colors until the reader asks for others.
function followTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const choices = ['system', 'light', 'dark'];
  let chosen = 'system';
  const apply = () => {
    document.documentElement.dataset.theme = chosen === 'system' ? (dark.matches ? 'dark' : 'light')
      : chosen;
    byId('theme').textContent = `Theme: ${chosen}`;
    byId('theme').setAttribute('aria-label', `Colors: ${chosen === 'system' ? 'as the system' : chosen}`);
  };
  byId('theme').addEventListener('click',
    () => { chosen = choices[(choices.indexOf(chosen) + 1) % choices.length]; apply(); });
  dark.addEventListener('change', apply);
  apply();
}

// Charts are as wide as their place: another width draws them again.
function followWidth() {
  let [width, waiting] = [innerWidth, undefined];
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (innerWidth === width || !page) return;
      width = innerWidth;
      page.view.changed();
    }, 200);
  });
}

let page = null;  // {data, view, prices, table}
let table;

// The measurements behind a mark or a message, in the table.
const showBehind = (rows, title) => table.showOnly(rows, title);

function drawPage(data) {
  drawSummary(data);
  drawProvenance(data);
  drawConstants(data);
  const view = new View(data);
  const prices = new Prices(view);
  drawFilters(view);
  drawAnswer(view, prices);
  drawPlan(view, prices);
  drawThroughput(view);
  drawScaling(view);
  drawMemory(view);
  drawPareto(view);
  drawTokens(view, prices);
  drawEffects(view);
  drawCurves(view);
  drawFailures(view);
  table = new Table(view);
  page = {data, view, prices, table};
}

async function begin() {
  drawPage(new Data(await decoded(byId('data').textContent)));
}

followTheme();
followWidth();
addEventListener('beforeprint', () => table?.paint(kPrintedRows));
addEventListener('afterprint', () => table?.paint());
begin().then(() => { document.documentElement.dataset.ready = 'true'; }, error => {
  byId('summary').textContent = `This page could not be drawn: ${error.message}`;
  throw error;
});
