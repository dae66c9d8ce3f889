// What is shown and what is picked: one place that every part of the page reads and listens to.
const points = decode(view.points);
const rows = decode(view.rows);
const groupOf = (point) => point.group;
const levelsWithPoints = LEVELS.filter(({ key }) =>
  points.some((point) => intensityOf(point, key) > 0 && rateOf(point) > 0));
// Phases in the order of a step, other groups by the time of their longest point.
const byPhase = points.every((point) => view.phases.includes(point.group));
const groups = [...new Set(byPhase ? view.phases.filter((phase) =>
  points.some((point) => point.group === phase)) : points.map(groupOf))];
const precisions = [...new Set(points.filter((p) => p.pair).map((p) => p.pair[1]))].sort();

const state = {
  levels: new Set(levelsWithPoints.map(({ key }) => key)),
  groups: new Set(groups),
  precision: "",
  share: 1,
  picked: new Set(), // indices of points; empty: everything
};

// How much of the time the longer points hold: what the slider compares with.
const timeBefore = [];
points.reduce((before, point) => {
  timeBefore.push(before);
  return before + (point.time || 0);
}, 0);
const wholeTime = points.reduce((whole, point) => whole + (point.time || 0), 0);

// A chart of very many points begins with the longest ones; the slider has the others.
const MOST_AT_FIRST = 300;
const firstShare = () => {
  if (points.length <= MOST_AT_FIRST || wholeTime === 0) return 1;
  return Math.max(Math.floor((100 * timeBefore[MOST_AT_FIRST]) / wholeTime), 1) / 100;
};
state.share = firstShare();

const isShown = (point) =>
  state.groups.has(groupOf(point)) &&
  (!state.precision || (point.pair && point.pair[1] === state.precision)) &&
  (wholeTime === 0 || timeBefore[point.index] < state.share * wholeTime - 1e-12 * wholeTime);

const isPicked = (point) => state.picked.size === 0 || state.picked.has(point.index);

const listeners = [];
const changed = () => listeners.forEach((listener) => listener());

// Isolate some points; with `more` beside those that are isolated already. Twice undoes it.
const pick = (indices, more = false) => {
  const same = indices.length > 0 && indices.every((index) => state.picked.has(index)) &&
    (more || indices.length === state.picked.size);
  if (same && more) indices.forEach((index) => state.picked.delete(index));
  else state.picked = new Set(same ? [] : [...(more ? state.picked : []), ...indices]);
  changed();
};

const pointsOfRow = (row) => points.filter((point) => point.row === row).map((p) => p.index);
