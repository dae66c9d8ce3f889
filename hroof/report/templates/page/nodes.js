// The layer tree as data: containers by the parts of the names, layers, their ops by phase, kernels.
const MISSING_KERNEL = "(no kernel)";
const nodes = [];

const addNode = (node) => {
  nodes.push({ id: nodes.length, open: false, children: [], parent: null, row: null, label: "", ...node });
  return nodes[nodes.length - 1];
};

const adopt = (parent, child) => {
  child.parent = parent;
  parent.children.push(child);
  return child;
};

const pointsByRow = new Map();
for (const point of points) {
  if (!pointsByRow.has(point.row)) pointsByRow.set(point.row, []);
  pointsByRow.get(point.row).push(point);
}

const phaseTimes = (found) => {
  const times = {};
  for (const { key, time } of found) times[key.phase] = (times[key.phase] || 0) + (time || 0);
  return times;
};

const mergeTimes = (all) => {
  const times = {};
  for (const one of all) {
    for (const [phase, time] of Object.entries(one)) times[phase] = (times[phase] || 0) + time;
  }
  return times;
};

const grouped = (items, keyOf) => {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(item);
  }
  return [...found.values()];
};

const total = (parts) => (parts.length === 1 ? parts[0] : sum(parts));

const kernelNode = (leaf) =>
  addNode({ kind: "kernel", label: labelOf("kernel", leaf.key.kernel), path: leaf.key.kernel, group: leaf, times: phaseTimes([leaf]), points: [] });

const opNode = (parts) => {
  const { op, phase, kernel } = parts[0].key;
  const node = addNode({
    kind: "op", label: op, type: phase, group: total(parts), times: phaseTimes(parts), points: [],
  });
  if (kernel !== undefined && !(parts.length === 1 && kernel === MISSING_KERNEL)) {
    parts.forEach((leaf) => adopt(node, kernelNode(leaf)));
  }
  return node;
};

const layerNode = (row, leaves) => {
  const found = pointsByRow.get(row.index) || [];
  const node = addNode({
    kind: "layer", label: row.key.layer, path: row.key.layer, type: row.type, row: row.index, group: row,
    times: phaseTimes(found), points: found.map((point) => point.index),
  });
  grouped(leaves, ({ key }) => `${key.phase}\n${key.op}`).forEach((parts) => adopt(node, opNode(parts)));
  return node;
};

// A name tree: each part of a dotted name one step down.
const nameTree = (layers) => {
  const root = { parts: new Map(), own: null };
  for (const layer of layers) {
    let place = root;
    for (const part of layer.path.split(".")) {
      if (!place.parts.has(part)) place.parts.set(part, { parts: new Map(), own: null });
      place = place.parts.get(part);
    }
    place.own = layer;
  }
  return root;
};

// Containers with one part only are one row with it: `model.decoder` instead of two rows.
const fromNames = (place, label) => {
  const inside = [...place.parts];
  if (!inside.length) return Object.assign(place.own, { label });
  if (inside.length === 1 && !place.own) return fromNames(inside[0][1], `${label}.${inside[0][0]}`);
  const children = inside.map(([part, below]) => fromNames(below, part));
  if (place.own) children.unshift(Object.assign(place.own, { label: "(own work)" }));
  const node = addNode({
    kind: "container", label, type: place.own ? place.own.type : "", group: sum(children.map((c) => c.group)),
    times: mergeTimes(children.map((c) => c.times)), points: children.flatMap((c) => c.points),
  });
  children.forEach((child) => adopt(node, child));
  return node;
};

const leavesByLayer = new Map();
for (const leaf of decode(view.leaves)) {
  if (!leavesByLayer.has(leaf.key.layer)) leavesByLayer.set(leaf.key.layer, []);
  leavesByLayer.get(leaf.key.layer).push(leaf);
}

const hasTree = view.by.length === 1 && view.by[0] === "layer" && rows.length > 0;
const layers = hasTree ? rows.map((row) => layerNode(row, leavesByLayer.get(row.key.layer) || [])) : [];
const roots = [...nameTree(layers).parts].map(([part, place]) => fromNames(place, part));
