// The Roofline: markers (shape: level, colour: phase, area: time), their lines, labels, hover and keys.
const SHAPES = {
  l1: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  l2: (r) => `M${-r * 0.89},${-r * 0.89}h${r * 1.78}v${r * 1.78}h${-r * 1.78}z`,
  l3: (r) => `M0,${-r * 1.25}L${r * 1.25},0L0,${r * 1.25}L${-r * 1.25},0z`,
  dram: (r) => `M0,${-r * 1.35}L${r * 1.17},${r * 0.67}L${-r * 1.17},${r * 0.67}z`,
};
const LARGEST = 17, SMALLEST = 3.2, LABELS = 8;

const longest = Math.max(...points.map((point) => point.time || 0), 0);
const radiusOf = (point) => {
  const most = LARGEST * Math.min(1, (60 / Math.max(points.length, 1)) ** 0.25);
  return Math.max(SMALLEST, longest > 0 ? most * Math.sqrt((point.time || 0) / longest) : 8);
};

const hue = (group) => {
  if (byPhase) return `hue-${group}`;
  return `hue-${Math.min(groups.indexOf(group), 8)}`;
};

const drawnLevels = (point) => {
  if (!(rateOf(point) > 0)) return [];
  return LEVELS.filter(({ key }) => state.levels.has(key) && intensityOf(point, key) > 0);
};

const markerOf = (point, level) => {
  const place = `translate(${X(intensityOf(point, level))},${Y(rateOf(point))})`;
  const open = point.marks[level] === "~" ? " open" : "";
  return draw("path", {
    class: `marker ${hue(groupOf(point))}${open}${isAbove(point) ? " above" : ""}`,
    d: SHAPES[level](radiusOf(point)), transform: place, "data-point": point.index, "data-level": level,
  });
};

const pointElement = (point) => {
  const levels = drawnLevels(point);
  const xs = levels.map(({ key }) => X(intensityOf(point, key)));
  const y = Y(rateOf(point));
  const group = draw("g", { class: `point${isPicked(point) ? "" : " dimmed"}`, "data-index": point.index });
  if (levels.length > 1) {
    group.append(draw("line", {
      class: `join ${hue(groupOf(point))}`, x1: Math.min(...xs), x2: Math.max(...xs), y1: y, y2: y,
    }));
  }
  group.append(...levels.map(({ key }) => markerOf(point, key)));
  if (isAbove(point)) {
    const x = Math.max(...xs) + radiusOf(point) + 3;
    group.append(draw("text", { class: "warning", x, y: y - 4 }, "⚠"));
  }
  return group;
};

// Where the names of the flat roofs stand: no other name may cover them.
const roofNames = () =>
  [...chart.querySelectorAll(".roof-name[x]")].map((name) => {
    const right = Number(name.getAttribute("x"));
    const y = Number(name.getAttribute("y"));
    return [right - 6.8 * name.textContent.length, y - 12, right, y + 4];
  });

// Names of the longest groups, each at the first of some places where it covers no other name.
const labels = (shown) => {
  const taken = roofNames();
  const group = draw("g", { class: "labels" });
  const called = (point) => point.key.layer || nameOf(point);
  // A layer that has several points is named at its longest one.
  const firsts = new Map(shown.filter(isPicked).map((point) => [called(point), point]).reverse());
  const chosen = shown.filter((point) => firsts.get(called(point)) === point).slice(0, LABELS);
  for (const point of chosen) {
    const name = Object.entries(point.key).find(([key]) => key !== "phase");
    const text = name ? shortened(labelOf(...name), 28) : groupOf(point);
    const wide = 6.4 * text.length + 4;
    const x = Math.max(...drawnLevels(point).map(({ key }) => X(intensityOf(point, key))));
    const [y, gap] = [Y(rateOf(point)), radiusOf(point) + 4];
    const places = [[gap, 4], [gap, -gap], [gap, gap + 8], [-wide - gap, -gap], [-wide / 2, -gap - 4], [-wide / 2, gap + 12]];
    const box = places.map(([dx, dy]) => [x + dx, y + dy - 11, x + dx + wide, y + dy + 3]).find((one) =>
      one[0] > CHART.left && one[2] < inner.right && one[1] > CHART.top && one[3] < inner.bottom - 20 &&
      !taken.some((t) => one[0] < t[2] && t[0] < one[2] && one[1] < t[3] && t[1] < one[3]));
    if (!box) continue;
    taken.push(box);
    group.append(draw("text", { x: box[0], y: box[3] - 3 }, text));
  }
  return group;
};

const shortened = (text, limit) => (text.length <= limit ? text : `…${text.slice(1 - limit)}`);

const chart = draw("svg", {
  class: "plot", viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "group", tabindex: 0,
  "aria-label": "Roofline. Arrow keys go from point to point, Enter isolates, Escape shows all.",
});

const shownPoints = () => points.filter((point) => isShown(point) && drawnLevels(point).length > 0);

const drawChart = () => {
  const shown = shownPoints();
  const drawn = shown.map(pointElement); // longest first: small markers lie on top of large ones
  drawn.sort((a, b) => a.classList.contains("dimmed") < b.classList.contains("dimmed") ? 1 : -1);
  chart.replaceChildren(zones(), grid(), roofLines(), draw("g", { class: "points" }, ...drawn));
  chart.append(labels(shown));
  chart.classList.toggle("isolated", state.picked.size > 0);
};

// What hovering or the keyboard tells about a point.
const tip = make("div", { class: "tip", role: "tooltip", hidden: "" });

const fact = (name, text, source) =>
  make("div", {}, make("dt", {}, name), make("dd", {}, text, source ? make("small", {}, source) : ""));

const levelFact = (point, { key, label }, place) => {
  const rate = byteRateOf(point, key);
  const text = `${intensityCell(point, key)} FLOP/byte · ${bytesCell(point, key)} · ${si(rate, "B/s")}`;
  return fact(label, text, sourceWord(point, place + 2));
};

const factsOf = (point) => {
  const share = wholeTime > 0 ? point.time / wholeTime : null;
  const list = [
    fact("Time", `${si(point.time, "s")} a step, ${percent(share)}`, sourceWord(point, 0)),
    fact("Work", flopCell(point), sourceWord(point, 1)),
    fact("Performance", rateCell(point)),
    ...LEVELS.map((level, i) => (point.bytes[level.key] === null ? "" : levelFact(point, level, i))),
    fact("Launches", countText(point.launches)),
  ];
  if (point.bound) {
    list.push(fact("Bound", boundCell(point)), fact("Headroom", `${headroomCell(point)} ×`),
      fact("Could save", `at most ${si(savesOf(point), "s")} a step`));
  }
  return [
    make("strong", {}, shortNameOf(point)),
    ...(shortNameOf(point) === nameOf(point) ? [] : [make("p", { class: "note" }, nameOf(point))]),
    make("dl", {}, ...list),
    ...point.notes.map((note) => make("p", { class: "alarm" }, `⚠ ${note}`)),
  ];
};

const hideTip = () => {
  tip.hidden = true;
  document.querySelectorAll(".marker.hover").forEach((one) => one.classList.remove("hover"));
};

// Beside a marker, inside the frame of its drawing.
const showTip = (group, marker) => {
  const plot = marker.ownerSVGElement;
  hideTip();
  plot.querySelectorAll(`.marker[data-point="${marker.dataset.point}"]`)
    .forEach((one) => one.classList.add("hover"));
  plot.parentElement.append(tip);
  tip.replaceChildren(...factsOf(group));
  tip.hidden = false;
  const [box, frame] = [marker.getBoundingClientRect(), plot.parentElement.getBoundingClientRect()];
  const left = box.right - frame.left + 12;
  const turned = left + tip.offsetWidth > frame.width ? box.left - frame.left - tip.offsetWidth - 12 : left;
  const top = Math.min(box.top - frame.top - 20, frame.height - tip.offsetHeight - 4);
  tip.style.left = `${Math.max(turned, 0)}px`;
  tip.style.top = `${Math.max(top, 0)}px`;
};

// Keyboard: one point is current; arrows go by time (up and down) or by place (left and right).
let current = null;

const neighbour = (key) => {
  const shown = shownPoints().filter(isPicked);
  if (!shown.length) return null;
  const middle = (point) => intensityOf(point, drawnLevels(point)[0].key);
  const order = key === "ArrowLeft" || key === "ArrowRight"
    ? [...shown].sort((a, b) => middle(a) - middle(b)) : shown;
  const place = order.findIndex((point) => point.index === current);
  if (place < 0) return order[0];
  const next = place + (key === "ArrowRight" || key === "ArrowDown" ? 1 : -1);
  return order[(next + order.length) % order.length];
};

const visit = (point) => {
  current = point.index;
  showTip(point, chart.querySelector(`.marker[data-point="${point.index}"]`));
  say(`${shortNameOf(point)}: ${si(point.time, "s")}, ${rateCell(point)}`);
};

const isolatePoint = (point, more) => {
  pick(point.row === null ? [point.index] : pointsOfRow(point.row), more);
  if (state.picked.size && point.row !== null) revealRow(point.row);
};

const isArrow = (key) => key.startsWith("Arrow");

chart.addEventListener("keydown", (event) => {
  if (isArrow(event.key)) {
    const point = neighbour(event.key);
    if (point) visit(point);
  } else if ((event.key === "Enter" || event.key === " ") && current !== null) {
    isolatePoint(points[current], event.ctrlKey || event.metaKey);
    if (isShown(points[current])) visit(points[current]);
  } else if (event.key === "Escape") {
    hideTip();
    pick([]);
  } else return;
  event.preventDefault();
});

const markerAt = (event) => event.target.closest && event.target.closest(".marker");

chart.addEventListener("pointermove", (event) => {
  const marker = markerAt(event);
  if (marker) showTip(points[marker.dataset.point], marker);
  else hideTip();
});
chart.addEventListener("pointerleave", hideTip);
chart.addEventListener("blur", hideTip);
chart.addEventListener("click", (event) => {
  const marker = markerAt(event);
  if (marker) isolatePoint(points[marker.dataset.point], event.ctrlKey || event.metaKey);
  else pick([]);
});
