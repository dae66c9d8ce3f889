// Work without FLOP has no place on the Roofline: a strip of its own, bytes per second over time.
const STRIP = { height: 230, top: 26, bottom: 44 };

const withoutFlop = () => {
  const leaves = decode(view.leaves);
  return (leaves.length ? leaves : points).filter((group) =>
    group.flop === 0 && group.time > 0 && LEVELS.some(({ key }) => byteRateOf(group, key) > 0));
};

const stripAxes = (found) => {
  const rates = found.flatMap((group) => LEVELS.map(({ key }) => byteRateOf(group, key)).filter((r) => r > 0));
  const times = found.map((group) => group.time);
  const xs = [...rates, ...slopes.map((roof) => roof.rate)];
  const low = STRIP.height - STRIP.bottom;
  return {
    xs: [Math.min(...xs) / 2, Math.max(...xs) * 3], ys: [Math.min(...times) / 2, Math.max(...times) * 2],
    x: logScale(Math.min(...xs) / 2, Math.max(...xs) * 3, CHART.left, inner.right),
    y: logScale(Math.min(...times) / 2, Math.max(...times) * 2, low, STRIP.top),
  };
};

const stripGrid = ({ xs, ys, x, y }) => {
  const low = STRIP.height - STRIP.bottom;
  return draw("g", { class: "grid" },
    ...decades(...xs).flatMap((value) => [
      draw("line", { x1: x(value), x2: x(value), y1: STRIP.top, y2: low }),
      draw("text", { x: x(value), y: low + 16, "text-anchor": "middle" }, si(value, "B/s", 1))]),
    ...decades(...ys).flatMap((value) => [
      draw("line", { x1: CHART.left, x2: inner.right, y1: y(value), y2: y(value) }),
      draw("text", { x: CHART.left - 8, y: y(value) + 4, "text-anchor": "end" }, si(value, "s", 1))]),
    draw("text", { class: "axis", x: (CHART.left + inner.right) / 2, y: STRIP.height - 8, "text-anchor": "middle" },
      "Bytes per second, over the time of a step"));
};

const stripRoofs = ({ x }) =>
  draw("g", { class: "roofs" }, ...slopes.flatMap((roof, i) => [
    draw("line", { class: roofClass(roof), x1: x(roof.rate), x2: x(roof.rate), y1: STRIP.top, y2: STRIP.height - STRIP.bottom }),
    draw("text", { class: "roof-name", x: x(roof.rate) - 4, y: i % 2 ? 12 : 22, "text-anchor": "end" },
      `${roof.name} ${si(roof.rate, "B/s")}`)]));

const stripMarker = (group, number, level, { x, y }) =>
  draw("path", {
    class: `marker hue-${group.key.phase || "other"}${group.marks[level] === "~" ? " open" : ""}`, d: SHAPES[level](5),
    transform: `translate(${x(byteRateOf(group, level))},${y(group.time)})`, "data-point": number,
  });

const makeStrip = (place) => {
  const found = withoutFlop();
  if (!found.length) return;
  const axes = stripAxes(found);
  const markers = found.flatMap((group, i) => LEVELS.filter(({ key }) => byteRateOf(group, key) > 0)
    .map(({ key }) => stripMarker(group, i, key, axes)));
  const plot = draw("svg", {
    class: "plot strip", viewBox: `0 0 ${CHART.width} ${STRIP.height}`, role: "img",
    "aria-label": `Bytes per second of ${found.length} groups without FLOP; the table below has their numbers`,
  }, stripGrid(axes), stripRoofs(axes), ...markers);
  plot.addEventListener("pointermove", (event) => {
    const marker = markerAt(event);
    if (marker) showTip(found[marker.dataset.point], marker);
    else hideTip();
  });
  plot.addEventListener("pointerleave", hideTip);
  place.append(make("div", { class: "plot-frame" }, plot));
};
