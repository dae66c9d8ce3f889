// The embedded data as objects. A group is what the page shows as one point or one row: numbers per
// step in s, B and FLOP; null is not known.
const view = JSON.parse(document.getElementById("hroof-view").textContent);
const LEVELS = view.levels.map(([key, label]) => ({ key, label }));
const LETTERS = "KMCVP–";
const SOURCES = ["counter", "measured", "counted", "convention", "predicted", "not known"];

const at = (column, index, otherwise = null) => (column ? column[index] : otherwise);

const byLevel = (columns, index, otherwise) =>
  Object.fromEntries(LEVELS.map(({ key }) => [key, at(columns[key], index, otherwise)]));

const decode = (table) =>
  Array.from({ length: table.size }, (_, i) => {
    const bound = at(table.bound, i);
    const pair = at(table.pair, i);
    const type = at(table.type, i);
    const [source, ...marks] = view.trust[table.trust[i]];
    return {
      index: i,
      key: Object.fromEntries(Object.entries(table.keys).map(([k, c]) => [k, view.names[c[i]]])),
      type: type === null ? "" : view.names[type],
      row: at(table.row, i),
      group: table.group ? view.names[table.group[i]] : "",
      launches: at(table.launches, i),
      time: at(table.time, i),
      flop: at(table.flop, i),
      op: at(table.op, i, 0),
      untimedFlop: at(table.untimedFlop, i, 0),
      uncounted: at(table.uncounted, i, 0),
      zero: at(table.zero, i, 0),
      attainable: at(table.attainable, i),
      bounded: at(table.bounded, i),
      bytes: byLevel(table.bytes, i, null),
      untimedBytes: byLevel(table.untimedBytes, i, 0),
      bound: bound === null ? null : view.bounds[bound],
      boundShare: at(table.boundShare, i),
      // Of a sum only a lower bound of the share is known, see `sum`.
      shareAtLeast: false,
      pair: pair === null ? null : view.pairs[pair],
      notes: (at(table.notes, i) || []).map((note) => view.notes[note]),
      source,
      marks: Object.fromEntries(LEVELS.map(({ key }, n) => [key, marks[n] || ""])),
    };
  });

const rateOf = (group) =>
  group.time > 0 && group.flop !== null ? (group.flop - group.untimedFlop) / group.time : null;

const byteRateOf = (group, level) => {
  const bytes = group.bytes[level];
  return group.time > 0 && bytes !== null
    ? (bytes - (group.untimedBytes[level] || 0)) / group.time : null;
};

const intensityOf = (group, level) => {
  const bytes = group.bytes[level];
  return bytes > 0 && group.flop !== null ? group.flop / bytes : null;
};

const headroomOf = (group) =>
  group.attainable > 0 && group.bounded > 0 ? group.bounded / group.attainable : null;

const savesOf = (group) =>
  group.attainable > 0 ? Math.max((group.bounded || 0) - group.attainable, 0) : null;

const isAbove = (group) => {
  const headroom = headroomOf(group);
  const low = headroom !== null && headroom < 1 - 1e-9;
  return low || group.notes.some((note) => note.startsWith("Above"));
};

const nameOf = (group) => Object.values(group.key).join(" · ") || "all";

// A kernel's full name is C++ of many lines: a short one where that tells it from the others.
const labelled = new Map(view.labels.map(([name, label]) => [view.names[name], label]));
const labelOf = (key, name) => (key === "kernel" && labelled.get(name)) || name;
const shortNameOf = (group) =>
  Object.entries(group.key).map(([key, name]) => labelOf(key, name)).join(" · ") || "all";

// Sums. A total counts the known values only, as everywhere in hroof; null where none is known.
const added = (values) => {
  const found = values.filter(known);
  return found.length ? found.reduce((sum, value) => sum + value, 0) : null;
};

const worstLetters = (sources) => {
  const parts = sources.map((source) => source.split("/"));
  return parts[0]
    .map((_, i) => LETTERS[Math.max(...parts.map((part) => LETTERS.indexOf(part[i])))])
    .join("/");
};

// The name of what bounds the largest known part of a sum. Of each part only its largest bound is
// known, so that the share is "at least".
const largestBound = (parts) => {
  const seconds = new Map();
  for (const part of parts) {
    if (!part.bound || !known(part.attainable)) continue;
    const own = part.attainable * (part.boundShare || 0);
    seconds.set(part.bound, (seconds.get(part.bound) || 0) + own);
  }
  return [...seconds].sort((a, b) => b[1] - a[1])[0] || [null, null];
};

const sum = (parts) => {
  const total = (name) => added(parts.map((part) => part[name]));
  const levels = (name) =>
    Object.fromEntries(LEVELS.map(({ key }) => [key, added(parts.map((p) => p[name][key]))]));
  const mark = (key) => {
    const marks = parts.map((part) => part.marks[key]);
    const partly = parts.some((part) => part.bytes[key] === null && part.time > 0);
    return marks.includes("~") ? "~" : marks.includes("≥") || partly ? "≥" : "";
  };
  const attainable = total("attainable");
  const [bound, seconds] = largestBound(parts);
  return {
    key: {}, type: "", row: null, notes: [], pair: null, index: null,
    launches: total("launches"), time: total("time"), flop: total("flop"), op: total("op") || 0,
    untimedFlop: total("untimedFlop") || 0, uncounted: total("uncounted") || 0,
    zero: total("zero") || 0, attainable, bounded: total("bounded"),
    bytes: levels("bytes"), untimedBytes: levels("untimedBytes"),
    bound, boundShare: attainable > 0 ? seconds / attainable : null, shareAtLeast: true,
    source: worstLetters(parts.map((part) => part.source)),
    marks: Object.fromEntries(LEVELS.map(({ key }) => [key, mark(key)])),
  };
};

// Cells, with the marks of hroof/report/cells.py.
const upper = (mark) => mark.replace("≥", "≤");
const spaced = (mark) => (mark ? `${mark} ` : "");
const intensityCell = (group, level) => {
  const value = intensityOf(group, level);
  return value === null ? DASH : spaced(upper(group.marks[level])) + plainNumber(value);
};
const bytesCell = (group, level) => {
  const bytes = group.bytes[level];
  return bytes === null ? DASH : spaced(group.marks[level]) + si(bytes, "B");
};
const atLeast = (group) => (group.uncounted > 0 && group.flop !== null ? "≥ " : "");
const flopCell = (group) => {
  const text = atLeast(group) + si(group.flop, "FLOP");
  return group.op > 0 ? `${text} + ${si(group.op, "OP")}` : text;
};
const rateCell = (group) => {
  if (group.op > 0 && !(group.flop > 0) && group.time > 0) return si(group.op / group.time, "OP/s");
  return atLeast(group) + si(rateOf(group), "FLOP/s");
};
const boundCell = (group) => {
  if (!group.bound) return DASH;
  return `${group.bound} ${group.shareAtLeast ? "≥ " : ""}${percent(group.boundShare, 0)}`;
};
const headroomCell = (group) => {
  const headroom = headroomOf(group);
  return (isAbove(group) && headroom < 1 ? "! " : "") + plainNumber(headroom);
};
const sourceWord = (group, place) => SOURCES[LETTERS.indexOf(group.source.split("/")[place])];
