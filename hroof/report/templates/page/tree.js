// The layer tree on the page: sort, search, open, keys; a click isolates the points of a row.
const MOST_VISIBLE = 400, OPENED = 24;
const tree = { flat: false, wanted: "", sort: { column: 2, sign: -1 }, focus: null, most: MOST_VISIBLE };

const stackedBar = (times) => {
  const whole = added(Object.values(times)) || 0;
  const bar = make("span", { class: "stack" });
  for (const phase of view.phases) {
    if (!(times[phase] > 0)) continue;
    const part = make("i", { class: `hue-${phase}`, title: `${phase} ${si(times[phase], "s")}, ${percent(times[phase] / whole)}` });
    part.style.width = `${(100 * times[phase]) / whole}%`;
    bar.append(part);
  }
  return bar;
};

const shareOf = (group) => (view.time > 0 && group.time !== null ? group.time / view.time : null);
const hasRoofs = view.roofs.length > 0;

const levelsInRows = LEVELS.filter(({ key }) => rows.some((row) => intensityOf(row, key) !== null));

// Header, text of a cell, what it sorts by, and whether it is a number. What to do something about comes
// first, so that a narrow window still shows it.
const COLUMNS = [
  ["layer", null, (node) => node.path || node.label, false],
  ["phases", (node) => stackedBar(node.times), (node) => (node.times.backward || 0) / (node.group.time || 1), true],
  ["time", (node) => si(node.group.time, "s"), (node) => node.group.time, true],
  ["% of time", (node) => percent(shareOf(node.group)), (node) => node.group.time, true],
  ...(hasRoofs ? [
    ["could save", (node) => si(savesOf(node.group), "s"), (node) => savesOf(node.group), true],
    ["headroom", (node) => headroomCell(node.group), (node) => headroomOf(node.group), true],
    ["bound", (node) => boundCell(node.group), (node) => node.group.bound, false],
  ] : []),
  ["launches", (node) => countText(node.group.launches), (node) => node.group.launches, true],
  ["FLOP", (node) => flopCell(node.group), (node) => node.group.flop, true],
  ["FLOP/s", (node) => rateCell(node.group), (node) => rateOf(node.group), true],
  ...levelsInRows.map(({ key, label }) =>
    [`FLOP/B ${label}`, (node) => intensityCell(node.group, key), (node) => intensityOf(node.group, key), true]),
  ["source", (node) => node.group.source, (node) => node.group.source, false],
];

const sorted = (list) => {
  const key = COLUMNS[tree.sort.column][2];
  const keyed = list.map((node) => {
    const value = key(node);
    return [value === undefined ? null : value, node];
  });
  return keyed.sort(byKey(tree.sort.sign)).map(([, node]) => node);
};

const textOf = (node) => `${node.path || ""} ${node.label} ${node.type || ""}`.toLowerCase();

// What a search finds, and what it keeps: that and everything above it.
const search = () => {
  if (!tree.wanted) return null;
  const found = new Set(nodes.filter((node) => textOf(node).includes(tree.wanted)));
  const kept = new Set();
  for (const node of found) {
    for (let place = node; place; place = place.parent) kept.add(place);
  }
  return { found, kept };
};

// What is found can be opened by hand: then all that lies in it is shown as well.
const listed = () => {
  const [wanted, list] = [search(), []];
  const walk = (siblings, depth, within) => {
    for (const node of sorted(siblings)) {
      if (wanted && !wanted.kept.has(node) && !(within && node.parent.open)) continue;
      const below = wanted !== null && node.children.some((child) => wanted.kept.has(child));
      const open = (node.open || below) && node.children.length > 0;
      list.push({ node, depth, open });
      if (open) walk(node.children, depth + 1, within || (wanted && wanted.found.has(node)));
    }
  };
  walk(tree.flat ? layers : roots, 0, false);
  return list;
};

const nameCell = (node, depth, open) => {
  const sign = node.children.length ? (open ? "▾" : "▸") : "";
  const label = tree.flat && node.kind === "layer" ? node.path : node.label;
  const cell = make("th", { scope: "row" },
    make("span", { class: "twisty", "aria-hidden": "true" }, sign),
    make("span", { class: `name ${node.kind}`, title: node.path || null }, label === "" ? "(no name)" : label),
    node.type ? make("small", {}, node.type) : "");
  cell.style.paddingLeft = `${Math.min(depth, 20) * 1.05 + 0.3}rem`;
  return cell;
};

const isHit = (node) =>
  state.picked.size > 0 && node.points.length > 0 && node.points.every((index) => state.picked.has(index));

const rowElement = ({ node, depth, open }) => {
  const row = make("tr", {
    role: "row", "data-node": node.id, "aria-level": depth + 1, tabindex: -1,
    "aria-expanded": node.children.length ? String(open) : null, class: `${node.kind}${isHit(node) ? " hit" : ""}`,
  }, nameCell(node, depth, open));
  for (const [, text, , numeric] of COLUMNS.slice(1)) {
    row.append(make("td", { class: numeric ? null : "word" }, text(node)));
  }
  return row;
};

const treeBody = make("tbody", {});
const treeNote = make("p", { class: "note" });
const moreRows = button("Show more rows", { hidden: "" }, () => {
  tree.most += MOST_VISIBLE;
  drawTree();
});

const drawTree = () => {
  const list = listed();
  const had = treeBody.contains(document.activeElement);
  treeBody.replaceChildren(...list.slice(0, tree.most).map(rowElement));
  moreRows.hidden = list.length <= tree.most;
  const left = view.left.rows ? ` ${countText(view.left.rows)} shorter layers are left out.` : "";
  const closed = view.left.leaves ? " Of the shortest layers the ops are left out." : "";
  treeNote.textContent = list.length === 0 ? "Nothing has that name." : `${left}${closed}`.trim();
  const first = treeBody.querySelector(`[data-node="${tree.focus}"]`) || treeBody.rows[0];
  if (first) first.tabIndex = 0;
  if (first && had) first.focus({ preventScroll: true });
};

const openSome = () => {
  let count = roots.length;
  for (const node of sorted(roots)) {
    if (node.kind !== "container" || count + node.children.length > OPENED) continue;
    node.open = true;
    count += node.children.length;
  }
};

const setOpen = (node, open) => {
  node.open = open && node.children.length > 0;
  drawTree();
};

const treeHead = () => {
  const line = make("tr", {}, ...COLUMNS.map(([text, , , numeric]) =>
    make("th", { scope: "col", class: numeric ? "num" : null }, text)));
  [...line.cells].forEach((cell, column) => sortingHeader(cell, (sign) => {
    tree.sort = { column, sign };
    drawTree();
  }));
  line.cells[2].setAttribute("aria-sort", "descending");
  return make("thead", {}, line);
};

// Keys of a tree: up and down, right opens, left closes or goes to the container, Enter isolates.
const focusRow = (row) => {
  if (!row) return;
  for (const other of treeBody.rows) other.tabIndex = -1;
  tree.focus = Number(row.dataset.node);
  row.tabIndex = 0;
  row.focus();
};

const goLeft = (node) => {
  if (node.open) setOpen(node, false);
  else if (node.parent) focusRow(treeBody.querySelector(`[data-node="${node.parent.id}"]`));
};

const TREE_KEYS = {
  ArrowDown: (row) => focusRow(row.nextElementSibling),
  ArrowUp: (row) => focusRow(row.previousElementSibling),
  Home: () => focusRow(treeBody.rows[0]),
  End: () => focusRow(treeBody.rows[treeBody.rows.length - 1]),
  ArrowRight: (row, node) => setOpen(node, true),
  ArrowLeft: (row, node) => goLeft(node),
  Enter: (row, node, more) => pickNode(node, more),
  " ": (row, node) => setOpen(node, !node.open),
  Escape: () => pick([]),
};

// An op or a kernel has no point of its own: its layer's are meant.
const pickNode = (node, more) => {
  let place = node;
  while (place && !place.points.length) place = place.parent;
  if (place) pick(place.points, more);
};

const onTreeKey = (event) => {
  const row = event.target.closest("tr[data-node]");
  const act = TREE_KEYS[event.key];
  if (!row || !act) return;
  event.preventDefault();
  tree.focus = Number(row.dataset.node);
  act(row, nodes[row.dataset.node], event.ctrlKey || event.metaKey);
};

const onTreeClick = (event) => {
  const row = event.target.closest("tr[data-node]");
  if (!row) return;
  const node = nodes[row.dataset.node];
  focusRow(row);
  if (event.target.closest(".twisty") && node.children.length) setOpen(node, !node.open);
  else pickNode(node, event.ctrlKey || event.metaKey);
};

const setAll = (open) => () => {
  // Ops stay closed: all of them at once are too many to read.
  for (const node of nodes) node.open = open && node.kind === "container";
  drawTree();
};

const treeTools = () => {
  const flat = button("As a list", { "aria-pressed": "false" }, () => {
    tree.flat = !tree.flat;
    flat.setAttribute("aria-pressed", String(tree.flat));
    drawTree();
  });
  const field = searchField("Search layers, types, ops, kernels", (wanted) => {
    tree.wanted = wanted;
    tree.most = MOST_VISIBLE;
    drawTree();
  });
  return make("div", { class: "tools" }, field, flat, button("Open all", {}, setAll(true)),
    button("Close all", {}, setAll(false)));
};

const makeTree = (place) => {
  const table = make("table", { class: "tree", role: "treegrid", "aria-label": "Layers" }, treeHead(), treeBody);
  treeBody.addEventListener("keydown", onTreeKey);
  treeBody.addEventListener("click", onTreeClick);
  place.append(treeTools(), make("div", { class: "scroll tall" }, table), moreRows, treeNote);
  openSome();
  listeners.push(drawTree);
};

// The row of an isolated point comes into view, inside the table only: the chart stays where it is.
const showInside = (row) => {
  const frame = row.closest(".scroll");
  frame.scrollTop = row.offsetTop - frame.clientHeight / 2;
};

const revealRow = (index) => {
  const node = layers.find((layer) => layer.row === index);
  if (!node) {
    const row = document.getElementById(`row-${index}`);
    if (row) showInside(row);
    return;
  }
  for (let place = node.parent; place; place = place.parent) place.open = true;
  drawTree();
  const row = treeBody.querySelector(`[data-node="${node.id}"]`);
  if (row) showInside(row);
};
