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
function followWidth(view) {
  let [width, waiting] = [innerWidth, undefined];
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (innerWidth === width) return;
      width = innerWidth;
      view.changed();
    }, 200);
  });
}

// The measurements behind a mark or a message, in the table.
let table;
const showBehind = (rows, title) => table.showOnly(rows, title);

async function drawPage() {
  const data = new Data(await decodedData());
  drawSummary(data);
  drawProvenance(data);
  drawConstants(data);
  const view = new View(data);
  const prices = new Prices(view);
  drawFilters(view);
  drawAnswer(view, prices);
  drawThroughput(view);
  drawScaling(view);
  drawMemory(view);
  drawPareto(view);
  drawTokens(view, prices);
  drawEffects(view);
  drawFailures(view);
  table = new Table(view);
  followWidth(view);
}

followTheme();
drawPage().then(() => { document.documentElement.dataset.ready = 'true'; }, error => {
  byId('summary').textContent = `This page could not be drawn: ${error.message}`;
  throw error;
});
