// Logarithmic axes, their grid, the roofs and the zones of the chart.
const CHART = { width: 1160, height: 600, left: 86, right: 20, top: 16, bottom: 52 };
const inner = { right: CHART.width - CHART.right, bottom: CHART.height - CHART.bottom };

const logScale = (low, high, from, to) => {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  return (value) => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
};

const decades = (low, high) => {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power += 1) {
    found.push(10 ** power);
  }
  const every = Math.ceil(found.length / 14);
  return found.filter((_, i) => i % every === 0);
};

const slopes = view.roofs.filter((roof) => roof.level);
const peaks = view.roofs.filter((roof) => roof.precision);

// The peaks of units that the points use, and the highest one; of one format all of its units.
const shownPeaks = () => {
  if (state.precision) return peaks.filter((peak) => peak.precision === state.precision);
  const used = new Set(points.filter((p) => p.pair).map((p) => p.pair.join(" ")));
  const top = Math.max(...peaks.map((peak) => peak.rate));
  const chosen = peaks.filter((p) => used.has(`${p.pipe} ${p.precision}`) || p.rate === top);
  return (used.size ? chosen : peaks).sort((a, b) => b.rate - a.rate).slice(0, 6);
};

const shownSlopes = () =>
  slopes.filter(({ level }) => state.levels.has(level) ||
    !levelsWithPoints.some((known) => known.key === level));

// Limits hold every point, every ridge and a margin: they stay the same whatever is filtered, so
// that a point never moves.
const limits = (() => {
  const rates = points.map(rateOf).filter((rate) => rate > 0);
  const intensities = points.flatMap((point) =>
    LEVELS.map(({ key }) => intensityOf(point, key)).filter((value) => value > 0));
  const ridges = peaks.flatMap((peak) => slopes.map((slope) => peak.rate / slope.rate));
  const xs = [...intensities, ...ridges];
  const [x0, x1] = xs.length ? [Math.min(...xs) / 4, Math.max(...xs) * 8] : [0.01, 100];
  const ys = [...rates, ...peaks.map((peak) => peak.rate)];
  const top = ys.length ? Math.max(...ys) * 3 : 1e12;
  const low = rates.length ? Math.min(...rates) / 3 : top / 1e4;
  return { x0, x1, y0: Math.min(low, top / 1e3), y1: top };
})();

const X = logScale(limits.x0, limits.x1, CHART.left, inner.right);
const Y = logScale(limits.y0, limits.y1, inner.bottom, CHART.top);

const tick = (value) => (value >= 1e-3 && value < 1e6 ? String(Number(value.toPrecision(1))) :
  value.toExponential(0).replace("e+", "e"));

const grid = () => {
  const group = draw("g", { class: "grid" });
  for (const value of decades(limits.x0, limits.x1)) {
    const x = X(value);
    group.append(
      draw("line", { x1: x, x2: x, y1: CHART.top, y2: inner.bottom }),
      draw("text", { x, y: inner.bottom + 18, "text-anchor": "middle" }, tick(value)));
  }
  for (const value of decades(limits.y0, limits.y1)) {
    const y = Y(value);
    group.append(
      draw("line", { x1: CHART.left, x2: inner.right, y1: y, y2: y }),
      draw("text", { x: CHART.left - 8, y: y + 4, "text-anchor": "end" }, si(value, "FLOP/s", 1)));
  }
  const middle = (CHART.left + inner.right) / 2;
  group.append(draw("text", { class: "axis", x: middle, y: CHART.height - 10, "text-anchor": "middle" },
    "Arithmetic intensity [FLOP/byte]"));
  return group;
};

// The ridge that divides memory-bound from compute-bound: the slowest memory and the peak of the
// unit that does most of the shown work.
const mainRidge = () => {
  const [flats, sloped] = [shownPeaks(), slopes];
  if (!flats.length || !sloped.length) return null;
  const work = (peak) => points.filter((p) => p.pair && p.pair.join(" ") === `${peak.pipe} ${peak.precision}`)
    .reduce((total, point) => total + point.flop, 0);
  const peak = [...flats].sort((a, b) => work(b) - work(a) || b.rate - a.rate)[0];
  const slope = [...sloped].sort((a, b) => a.rate - b.rate)[0];
  return { intensity: peak.rate / slope.rate, rate: peak.rate, slope };
};

const zones = () => {
  const group = draw("g", { class: "zones" });
  const ridge = mainRidge();
  if (!ridge) return group;
  const x = X(ridge.intensity);
  const tall = { y: CHART.top, height: inner.bottom - CHART.top };
  group.append(
    draw("rect", { class: "memory", x: CHART.left, width: Math.max(x - CHART.left, 0), ...tall }),
    draw("rect", { class: "compute", x, width: Math.max(inner.right - x, 0), ...tall }),
    draw("line", { class: "ridge", x1: x, x2: x, y1: Y(ridge.rate), y2: inner.bottom }),
    draw("text", { class: "ridge", x: x - 6, y: inner.bottom - 8, "text-anchor": "end" },
      `memory-bound at ${ridge.slope.name} ← ${plainNumber(ridge.intensity)} FLOP/byte`),
    draw("text", { class: "ridge", x: x + 6, y: inner.bottom - 8 }, "→ compute-bound"));
  return group;
};

const roofClass = (roof) => `roof ${roof.solid ? "solid" : "dashed"}`;

const bandwidthName = (roof) => `${roof.name} ${si(roof.rate, "B/s")}`;

const slopedRoof = (roof, top, shift, lift) => {
  const end = Math.min(top ? top / roof.rate : limits.x1, limits.x1);
  const start = Math.max(limits.x0, limits.y0 / roof.rate);
  if (end <= start) return [];
  const [x1, y1, x2, y2] = [X(start), Y(start * roof.rate), X(end), Y(end * roof.rate)];
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const along = 0.04 + shift / Math.hypot(x2 - x1, y2 - y1);
  const place = `translate(${x1 + (x2 - x1) * along + 6},${y1 + (y2 - y1) * along - lift}) rotate(${angle})`;
  return [
    draw("line", { class: roofClass(roof), x1, y1, x2, y2 }),
    draw("text", { class: "roof-name", transform: place }, bandwidthName(roof)),
  ];
};

// Labels of bandwidths that lie close together: that of the lowest goes below its roof, others move along theirs.
const slopedRoofs = (top) => {
  let [shift, last] = [0, null];
  return [...shownSlopes()].sort((a, b) => b.rate - a.rate).flatMap((roof, place, all) => {
    const close = last && Y(roof.rate) - Y(last.rate) < 17;
    const below = close && place === all.length - 1;
    shift = close && !below ? shift + 7 * bandwidthName(last).length + 14 : 0;
    last = roof;
    return slopedRoof(roof, top, shift, below ? -14 : 6);
  });
};

// Labels of peaks that lie close together move to the left, one beside the other.
const flatRoofs = (flats) => {
  const fastest = Math.max(...slopes.map((slope) => slope.rate), 0);
  let [right, last] = [inner.right, -Infinity];
  return [...flats].sort((a, b) => b.rate - a.rate).flatMap((roof) => {
    const y = Y(roof.rate);
    const x1 = Math.max(X(fastest ? roof.rate / fastest : limits.x0), CHART.left);
    const text = `${roof.name} ${si(roof.rate, "FLOP/s")}`;
    right = y - last < 15 ? right - 7 * text.length - 14 : inner.right;
    last = y - last < 15 ? last : y;
    return [
      draw("line", { class: roofClass(roof), x1, x2: inner.right, y1: y, y2: y }),
      draw("text", { class: "roof-name", x: right - 4, y: last - 5, "text-anchor": "end" }, text),
    ];
  });
};

const roofLines = () => {
  const flats = shownPeaks();
  const top = flats.length ? Math.max(...flats.map((roof) => roof.rate)) : 0;
  return draw("g", { class: "roofs" },
    ...slopedRoofs(top), ...flatRoofs(flats));
};
