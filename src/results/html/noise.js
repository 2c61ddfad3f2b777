// Is a difference larger than noise? The intervals of src/results/noise.h, on the page.

// The t with P(-t < T < t) = confidence: Newton's method from angle 0, as noise.cpp explains.
function studentT(confidence, degrees) {
  degrees = Math.min(degrees, 1e4);
  const scale = 2 * Math.exp(logGamma((degrees + 1) / 2) - logGamma(degrees / 2)) / Math.sqrt(Math.PI);
  const density = angle => scale * Math.cos(angle) ** (degrees - 1);
  let [angle, area] = [0, 0];
  for (let i = 0; i < 100; ++i) {
    const step = (confidence - area) / density(angle);
    if (step < 1e-12) break;
    const stretches = 64;
    const width = step / stretches;
    let sum = density(angle) + density(angle + step);
    for (let k = 1; k < stretches; ++k) sum += density(angle + k * width) * (k % 2 === 1 ? 4 : 2);
    area += sum * width / 3;
    angle += step;
  }
  return Math.sqrt(degrees) * Math.tan(angle);
}

// Stirling's series, behind a few steps up.
function logGamma(x) {
  let shift = 0;
  for (; x < 8; ++x) shift -= Math.log(x);
  return shift + (x - .5) * Math.log(x) - x + .5 * Math.log(2 * Math.PI) + 1 / (12 * x) - 1 / (360 * x ** 3)
    + 1 / (1260 * x ** 5);
}

const mean = numbers => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

function varianceOfLogs(values) {
  const logs = values.map(Math.log);
  const center = mean(logs);
  return logs.reduce((sum, log) => sum + (log - center) ** 2, 0) / (logs.length - 1);
}

// The variance of the median of that many normal values, over that of their mean.
const medianExcess = count => count < 3 ? 1 : Math.PI / 2 * (1 - .434 / count);

const fromRepeats = (side, like) => ({value: Math.log(median(side.values)),
  variance: varianceOfLogs(like.values) * medianExcess(side.values.length) / side.values.length,
  degrees: like.values.length - 1});

// A rate varies like the mean step time; steps that resemble their neighbors count as fewer.
function fromSteps({values, steps}) {
  const r = Math.min(Math.max(steps.correlation, 0), .99);
  const independent = Math.max(2, steps.count * (1 - r) / (1 + r));
  return {value: Math.log(values[0]), variance: (steps.deviation / steps.mean) ** 2 / independent,
    degrees: independent - 1};
}

// How far whole runs of one configuration lie apart, pooled over lists of repeats; null without repeats.
function runSpread(lists) {
  let [squares, degrees] = [0, 0];
  for (const values of lists) {
    if (values.length < 2 || values.some(value => !(value > 0))) continue;
    squares += varianceOfLogs(values) * (values.length - 1);
    degrees += values.length - 1;
  }
  return degrees > 0 ? {variance: squares / degrees, degrees} : null;
}

const hasSteps = side => side.steps.count >= 3;

// a over b with 95 %, as {ratio, low, high}; null where neither was repeated, no run of `others`, the
// spread of other configurations, says more, and a run is too short.
// Sides are {values, steps: {count, mean, deviation, correlation}}.
function ratioInterval(a, b, others) {
  if ([...a.values, ...b.values].some(value => !(value > 0))) return null;
  const [many, more] = [a.values.length > 1, b.values.length > 1];
  const single = !many && !more;
  const steps = hasSteps(a) && hasSteps(b);
  if (single && !steps && !others) return null;
  let [ofA, ofB] = !single ? [fromRepeats(a, many ? a : b), fromRepeats(b, more ? b : a)]
    : [a, b].map(side => steps ? fromSteps(side) : {value: Math.log(side.values[0]), variance: 0, degrees: 1});
  const shared = single && others && 2 * others.variance >= ofA.variance + ofB.variance;
  if (shared) [ofA, ofB] = [ofA, ofB].map(({value}) => ({value, ...others}));
  const sum = ofA.variance + ofB.variance;
  const parts = ofA.variance ** 2 / ofA.degrees + ofB.variance ** 2 / ofB.degrees;
  const degrees = shared || many !== more ? ofA.degrees : parts > 0 ? sum ** 2 / parts : ofA.degrees + ofB.degrees;
  const half = studentT(.95, Math.max(1, degrees)) * Math.sqrt(sum);
  const difference = ofA.value - ofB.value;
  return {ratio: Math.exp(difference), low: Math.exp(difference - half), high: Math.exp(difference + half)};
}

// Of one side alone, as factors of its value; null where its noise is not known.
function ownInterval(side, others) {
  const many = side.values.length > 1;
  if (!many && !hasSteps(side) && !others) return null;
  let own = many ? fromRepeats(side, side) : hasSteps(side) ? fromSteps(side) : others;
  if (!many && others && others.variance >= own.variance) own = others;
  const half = studentT(.95, Math.max(1, own.degrees)) * Math.sqrt(own.variance);
  return {low: Math.exp(-half), high: Math.exp(half)};
}

// The repeats of a configuration, with these numbers.
const sampled = (data, rows, values) => ({values, steps: {count: data.number('extra.step_count', rows[0]),
  mean: data.number('extra.step_mean_seconds', rows[0]),
  deviation: data.number('extra.step_deviation_seconds', rows[0]),
  correlation: data.number('extra.step_autocorrelation', rows[0])}});
