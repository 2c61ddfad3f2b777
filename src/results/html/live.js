// A page that follows a campaign: it loads its data from a script beside it, looks for a newer one
// again and again, and says how old they are. Whoever writes them leaves a sign each time. A sign
// that does not change is silence, by this page's own clock: that of the writer may be another.

const kLeastStaleSeconds = 10;
const kSilentSigns = 4;
const kShareOfTime = 10;  // drawing takes at most one part in so many of the time

const besidePage = extension =>
  `${location.href.split(/[?#]/)[0].replace(/\.[^./]*$/, '')}${extension}`;

// One value that a script beside the page hands over; nothing when it is not there.
function fromScript(extension, callback) {
  return new Promise(resolve => {
    let value;
    globalThis[callback] = given => { value = given; };
    const script = h('script', {src: `${besidePage(extension)}?${Date.now()}`,
      onload: () => { script.remove(); resolve(value); },
      onerror: () => { script.remove(); resolve(undefined); }});
    document.head.append(script);
  });
}

const liveData = () => fromScript('.data.js', 'sftbenchData');
const liveSign = () => fromScript('.live.js', 'sftbenchSign');

class Campaign {
  constructor() {
    this.sign = null;
    this.heardAt = performance.now();  // when the last new sign was seen
    this.paused = false;
    this.notBefore = 0;
    this.busyUntil = 0;
    this.problem = '';
    this.bar = byId('live');
    this.state = h('span', {role: 'status'});
    this.age = h('span');
    this.button = h('button', {type: 'button', id: 'pause', 'aria-pressed': 'false',
      onclick: () => this.pause(!this.paused)}, 'Pause');
    this.bar.replaceChildren(this.state, ' ', this.age, ' ', this.button);
    this.bar.hidden = false;
    for (const [name, seconds] of [['pointerdown', 8], ['keydown', 2], ['input', 2], ['change', 0]])
      addEventListener(name, event => this.mind(event, seconds), {capture: true});
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.look(); });
    setInterval(() => this.tell(), 1000);
  }

  // While somebody types or has a list open, nothing is drawn again under their hands.
  mind(event, seconds) {
    if (event.target.matches?.('select, input'))
      this.busyUntil = performance.now() + 1000 * seconds;
  }

  get readerIsBusy() {
    return this.paused || byId('dialog').open || performance.now() < this.busyUntil
      || !getSelection().isCollapsed;
  }

  get silentSeconds() { return (performance.now() - this.heardAt) / 1000; }
  get staleAfterSeconds() {
    return Math.max(kLeastStaleSeconds, kSilentSigns * (this.sign?.interval_s ?? 2));
  }

  pause(paused) {
    this.paused = paused;
    this.button.textContent = paused ? 'Go on' : 'Pause';
    this.button.setAttribute('aria-pressed', paused);
    if (!paused) this.look();
    this.tell();
  }

  async follow() {
    await this.look();
    const every = this.sign?.ended ? 30 : Math.min(60, Math.max(1, this.sign?.interval_s ?? 2));
    setTimeout(() => this.follow(), 1000 * every);
  }

  async look() {
    if (this.looking) return;
    this.looking = true;
    try {
      const sign = await liveSign();
      if (sign && JSON.stringify(sign) !== JSON.stringify(this.sign)) {
        if (this.sign !== null) this.heardAt = performance.now();
        this.sign = sign;
      }
      this.stale = !this.sign?.ended && this.silentSeconds > this.staleAfterSeconds;
      await this.refresh();
      this.problem = '';
    } catch (error) {
      this.problem = `Fresh data could not be drawn: ${error.message}.`;
    } finally {
      this.looking = false;
      this.tell();
    }
  }

  get waits() { return Boolean(this.sign?.data) && this.sign.data !== page?.data.head.created_at; }

  async refresh() {
    if (page && (!this.waits || this.readerIsBusy || performance.now() < this.notBefore)) return;
    const packed = await liveData();
    if (!packed) return;
    const data = new Data(await decoded(packed));
    if (page && this.readerIsBusy) return;  // meanwhile
    const begin = performance.now();
    drawPage(data);
    this.notBefore = performance.now() + kShareOfTime * (performance.now() - begin);
  }

  tell() {
    const said = this.said();
    if (this.state.textContent !== said) this.state.textContent = said;
    this.age.textContent = this.ageText();
    this.bar.classList.toggle('warning', Boolean(this.stale || this.problem || !page));
    this.bar.dataset.state = !page ? 'empty' : this.sign?.ended ? 'ended'
      : this.stale ? 'stale' : 'live';
  }

  said() {
    if (this.problem) return this.problem;
    const file = decodeURIComponent(besidePage('.data.js').split('/').at(-1));
    if (!page) return `No data yet: ${file} is not there.`;
    if (page.data.head.created_by !== this.madeBy) {
      this.madeBy ??= page.data.head.created_by;
      if (this.madeBy !== page.data.head.created_by)
        return 'Another version of the program writes the data now: load this page again.';
    }
    if (!this.sign) return 'Nobody keeps this page current: it has no sign of life beside it.';
    const line = this.sign.status.line;
    if (this.sign.ended)
      return `${line}. Nobody keeps this page current any more: ${this.sign.ended}.`;
    const silent = age(this.silentSeconds, true);
    if (this.stale)
      return `Stale: nobody has kept this page current for ${silent}. It said: ${line}.`;
    const waits = this.waits && this.readerIsBusy ? ' Fresh data wait for you.' : '';
    return `${line}.${this.paused ? ' Paused.' : waits}`;
  }

  ageText() {
    const at = page?.data.head.created_at;
    if (!at) return '';
    const old = age((Date.now() - Date.parse(at)) / 1000);
    return `Data from ${at.slice(0, 19).replace('T', ' ')} UTC, ${old} old.`;
  }
}

// "12 s", "3 min", "2 h", "5 days"; `coarse`: so that a text does not change every second.
function age(seconds, coarse = false) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${coarse ? Math.floor(whole / 10) * 10 : whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} days`;
}
