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

// As it is drawn now; a page that follows a campaign is drawn again with fresh data.
let page = null;  // {data, view, prices, table}
let table;

// The measurements behind a mark or a message, in the table.
const showBehind = (rows, title) => table.showOnly(rows, title);

// What the reader chose stays as it was.
function drawPage(data) {
  const was = page && kept(page);
  drawSummary(data);
  drawProvenance(data);
  drawConstants(data);
  const view = new View(data);
  const prices = new Prices(view);
  if (was) restoreView(view, prices, was);
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
  if (was) restorePage(page, was);
}

async function begin() {
  const block = byId('data');
  if (block.dataset.live === undefined) return drawPage(new Data(await decoded(block.textContent)));
  byId('summary').textContent = '';
  await new Campaign().follow();
}

followTheme();
followWidth();
addEventListener('beforeprint', () => table?.paint(kPrintedRows));
addEventListener('afterprint', () => table?.paint());
begin().then(() => { document.documentElement.dataset.ready = 'true'; }, error => {
  byId('summary').textContent = `This page could not be drawn: ${error.message}`;
  throw error;
});
