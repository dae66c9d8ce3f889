// Puts the parts together; what stands in the page for readers without scripts gives way.
const byId = (id) => document.getElementById(id);

// A link to a place in the page goes there by itself: inside a notebook the page has no address.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (!link) return;
  const target = byId(link.getAttribute("href").slice(1));
  if (!target) return;
  event.preventDefault();
  for (let place = target; place; place = place.parentElement) {
    if (place.tagName === "DETAILS") place.open = true;
  }
  document.querySelectorAll(".target").forEach((one) => one.classList.remove("target"));
  target.classList.add("target");
  target.scrollIntoView({ block: "start" });
});

// A finding shows its layers in the chart and in the table.
view.findings.forEach((found, number) => {
  const card = byId(`finding-${number + 1}`);
  const indices = found.flatMap(pointsOfRow);
  if (!card || !indices.length) return;
  card.append(button(found.length === 1 ? "Show it in the chart" : "Show them in the chart", {}, () => {
    state.picked = new Set();
    pick(indices);
    revealRow(found[0]);
    byId("roofline").scrollIntoView({ block: "start" });
  }));
});

const flat = byId("row");
if (flat) {
  if (hasTree) flat.closest(".static").hidden = true;
  else improveTable(flat);
  flat.tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    pick(pointsOfRow(Number(row.id.slice(4))), event.ctrlKey || event.metaKey);
  });
  listeners.push(() => {
    const hit = new Set([...state.picked].map((index) => points[index].row));
    for (const row of flat.tBodies[0].rows) {
      row.classList.toggle("hit", hit.has(Number(row.id.slice(4))));
    }
  });
}
if (byId("idle")) improveTable(byId("idle"));
if (points.length || view.roofs.length) {
  makeChart(byId("chart"));
  byId("chart-static").hidden = true;
}
if (hasTree) makeTree(byId("tree"));
makeStrip(byId("strip"));
makeDownloads(byId("downloads"));
changed();
document.documentElement.classList.add("scripted");
