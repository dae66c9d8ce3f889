// What the reader chooses: levels, phases, number format, how much of the time; and what is isolated.
const FEW_GROUPS = 12;

const shapeIcon = (level) =>
  draw("svg", { class: "icon", viewBox: "-8 -8 16 16", "aria-hidden": "true" },
    draw("path", { d: SHAPES[level](5.5) }));

const checkbox = (label, icon, chosen, value) => {
  const box = make("input", { type: "checkbox", checked: "", value });
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(value);
    else chosen.delete(value);
    changed();
  });
  return make("label", {}, box, icon, label);
};

const choices = (title, boxes) =>
  make("fieldset", {}, make("legend", {}, title), ...boxes);

const levelChoices = () =>
  choices("Level", levelsWithPoints.map(({ key, label }) =>
    checkbox(label, shapeIcon(key), state.levels, key)));

const groupChoices = () =>
  choices(byPhase ? "Phase" : "Group",
    groups.map((group) => checkbox(group, make("i", { class: `dot ${hue(group)}` }), state.groups, group)));

const precisionChoice = () => {
  const select = make("select", { "aria-label": "Number format" }, make("option", { value: "" }, "all"),
    ...precisions.map((name) => make("option", { value: name }, name.toUpperCase())));
  select.addEventListener("change", () => {
    state.precision = select.value;
    changed();
  });
  return choices("Format", [select]);
};

const shareSlider = () => {
  const slider = make("input", {
    type: "range", min: 1, max: 100, step: 1, value: Math.round(100 * state.share),
    "aria-label": "Share of the time shown",
  });
  const told = make("output", {});
  slider.addEventListener("input", () => {
    state.share = Number(slider.value) / 100;
    changed();
  });
  listeners.push(() => {
    const shown = shownPoints().length;
    told.textContent = `longest ${slider.value} % of the time: ${shown} of ${points.length} points`;
  });
  return choices("Time shown", [slider, told]);
};

// Says to screen readers what changed, and to everyone what is isolated.
const status = make("p", { class: "status note", role: "status" });
const say = (text) => {
  status.textContent = text;
};

const isolation = () => {
  const clear = button("Show all", { hidden: "" }, () => pick([]));
  listeners.push(() => {
    clear.hidden = state.picked.size === 0;
    const names = [...new Set([...state.picked].map((index) => rowName(points[index])))];
    const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
    say(names.length ? `Isolated: ${names.slice(0, 3).join(", ")}${more}. Ctrl-click adds, Escape shows all.` :
      "Point at a marker for its numbers; click it, or its row below, to isolate it.");
  });
  return clear;
};

const rowName = (point) => view.by.map((key) => labelOf(key, point.key[key])).join(" · ") || "all";

const HELP = `Shape: memory level. Colour: ${byPhase ? "phase" : "group"}. Area: time. ` + "A line joins the levels of one group: the " +
  "farther apart, the more a cache is reused. Open markers: predicted bytes. Solid roofs: measured here; dashed: " +
  "from a data sheet, a clock or by hand. ⚠ above a roof: a ceiling, a count or a time is wrong.";

const makeControls = () => {
  const bar = make("div", { class: "controls" });
  if (levelsWithPoints.length) bar.append(levelChoices());
  if (groups.length > 1 && groups.length <= FEW_GROUPS) bar.append(groupChoices());
  if (precisions.length > 1) bar.append(precisionChoice());
  bar.append(shareSlider(), isolation());
  return bar;
};

const makeChart = (place) => {
  const left = view.left.points
    ? [make("p", { class: "note" }, `${countText(view.left.points)} shorter groups are not in the chart.`)] : [];
  place.append(makeControls(), make("div", { class: "plot-frame" }, chart), status,
    make("p", { class: "note" }, HELP), ...left);
  listeners.push(drawChart);
};
